#include "comm/tuning.h"

#include <fcntl.h>
#include <sys/stat.h>

#include <cerrno>
#include <cstring>
#include <fstream>
#include <map>

#include <fmt/format.h>

#include "base/fd.h"
#include "base/file.h"
#include "comm/fabric.h"
#include "rondo/version.h"
#include "tune/table.h"

namespace rondo {
namespace {

// The value of "key : value" in a line of /proc/cpuinfo, or nothing.
std::string_view value_of(std::string_view line, std::string_view key) {
  if (!line.starts_with(key)) return {};
  line.remove_prefix(key.size());
  const size_t at = line.find_first_not_of(" \t:");
  return at == std::string_view::npos || at == 0 ? std::string_view() : line.substr(at);
}

std::string found_file(const Config& config) {
  if (const auto cache = config.foreign("XDG_CACHE_HOME")) return *cache + "/rondo/tuning";
  if (const auto home = config.foreign("HOME")) return *home + "/.cache/rondo/tuning";
  return {};
}

// `*there`: whether there is one. Opening and reading never block: a pipe is refused.
Result<std::string> read_table(const std::string& path, bool* there) {
  const UniqueFd fd(open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NOCTTY | O_NONBLOCK));
  *there = fd || (errno != ENOENT && errno != ENOTDIR);
  struct stat facts {};
  if (!fd || fstat(fd.get(), &facts) != 0)
    return fail(Code::invalid, "RONDO_TUNE: cannot read {}: {}", path, std::strerror(errno));
  if (!S_ISREG(facts.st_mode)) return fail(Code::invalid, "RONDO_TUNE: cannot read {}: expected a file", path);
  auto text = read_rest(fd, TuningTable::kMostBytes + 1, path);
  if (!text.ok()) return fail(Code::invalid, "RONDO_TUNE: {}", text.status().text());
  const auto table = TuningTable::parse(*text, path);
  if (!table.ok()) return fail(Code::invalid, "RONDO_TUNE: {}", table.status().text());
  return text;
}

// "AMD EPYC 25/17".
std::string cpu_model() {
  std::ifstream info("/proc/cpuinfo");
  std::string name, family, model;
  for (std::string line; std::getline(info, line) && !line.empty();) {
    if (const auto value = value_of(line, "model name"); !value.empty()) {
      name = value;
    } else if (const auto number = value_of(line, "cpu family"); !number.empty()) {
      family = number;
    } else if (const auto plain = value_of(line, "model\t"); !plain.empty()) {
      model = plain;
    }
  }
  return name.empty() ? "unknown" : fmt::format("{} {}/{}", name, family, model);
}

// "0.1.0; AMD EPYC 25/17; all transports".
std::string machine_of(const Config& config) {
  const std::string& allowed = config.text(Key::transports);
  std::string text =
      fmt::format("{}; {}; {}", RONDO_VERSION_STRING, cpu_model(), allowed.empty() ? "all transports" : allowed);
  for (char& c : text)
    if (c == '[' || c == ']' || c == '#') c = ' ';
  return text;
}

// The text of the file that RONDO_TUNE names; empty: none.
Result<std::string> read_tuning(const Config& config, const Logger& log) {
  const std::string& wanted = config.text(Key::tune);
  if (wanted == "off") return std::string();
  const bool found = wanted == "auto";
  const std::string path = found ? found_file(config) : wanted;
  if (path.empty()) return std::string();
  bool there = false;
  auto text = read_table(path, &there);
  if (text.ok() || !found) return text;
  if (there) log.warn("{}; choosing without it", text.status().text());
  return std::string();
}

}  // namespace

void describe_tuning(const Config& config, const Logger& log, Card& card) {
  card.machine = machine_of(config);
  auto text = read_tuning(config, log);
  if (text.ok()) {
    card.tuning = std::move(text).value();
  } else {
    card.tuning_fault = text.status().text();
  }
}

Status Fabric::adopt_tuning(const Card& first) {
  machine_ = first.machine;
  if (!first.tuning_fault.empty())
    return fail(Code::invalid, "{}{}", rank() == 0 ? "" : "rank 0: ", first.tuning_fault);
  auto table = TuningTable::parse(first.tuning, "rank 0's tuning table");
  if (!table.ok()) return table.status();
  tuning_ = std::move(table).value();
  return {};
}

// The same on all of the ranks: how crowded a host is counts where they share it.
std::string Fabric::tuning_key(const std::vector<Rank>& ranks) const {
  std::map<uint32_t, uint32_t> members_of;
  for (const Rank rank : ranks) ++members_of[host_of_[rank]];
  std::string hosts;
  for (const auto& [host, members] : members_of) hosts += fmt::format("{}{}", hosts.empty() ? "" : "+", members);
  std::string key = fmt::format("{}; {} ranks, hosts of {}", machine_, ranks.size(), hosts);
  if (members_of.size() == 1) key += fmt::format(", {} a processor", ranks_a_cpu_);
  return key;
}

}  // namespace rondo
