#include "comm/tuning.h"

#include <cerrno>
#include <cstring>
#include <fstream>
#include <map>

#include <fmt/format.h>

#include "comm/card.h"
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

// `*there`: false when there is no such file.
Result<std::string> read_table(const std::string& path, bool* there) {
  errno = 0;
  std::ifstream file(path, std::ios::binary);
  *there = file.is_open();
  if (!*there) return fail(Code::invalid, "RONDO_TUNE: cannot read {}: {}", path, std::strerror(errno));
  std::string text(TuningTable::kMostBytes + 1, 0);
  file.read(text.data(), static_cast<std::streamsize>(text.size()));
  if (file.bad() || (file.fail() && !file.eof()))
    return fail(Code::invalid, "RONDO_TUNE: cannot read {}: expected a file", path);
  text.resize(static_cast<size_t>(file.gcount()));
  const auto table = TuningTable::parse(text, path);
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

}  // namespace

std::string tuning_machine(const Config& config) {
  const std::string& allowed = config.text(Key::transports);
  std::string text =
      fmt::format("{}; {}; {}", RONDO_VERSION_STRING, cpu_model(), allowed.empty() ? "all transports" : allowed);
  for (char& c : text)
    if (c == '[' || c == ']' || c == '#') c = ' ';
  return text;
}

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

Status Fabric::agree_on_tuning(const std::vector<Card>& cards) {
  const Card& first = cards.front();
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
