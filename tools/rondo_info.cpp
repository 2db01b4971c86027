// rondo-info: what this build of Rondo is and what it finds on this machine: version, processor, reduction kernels,
// transports and why one is not usable, algorithms, and every configuration value with its source.
#include <sched.h>
#include <sys/resource.h>
#include <sys/utsname.h>
#include <unistd.h>

#include <cstdio>
#include <fstream>

#include <fmt/format.h>
#include <CLI/CLI.hpp>
#include <nlohmann/json.hpp>

#include "algo/registry.h"
#include "base/config.h"
#include "comm/wiring.h"
#include "kernels/kernels.h"
#include "rondo/version.h"

namespace {

using rondo::Config;
using Json = nlohmann::ordered_json;

constexpr int kExitFailed = 2;

// What follows `start` and its colon on the first line that begins with it.
std::string first_match(const std::string& path, const std::string& start) {
  std::ifstream file(path);
  for (std::string line; std::getline(file, line);) {
    if (line.rfind(start, 0) != 0) continue;
    const size_t text = line.find_first_not_of(" \t:", start.size());
    return text == std::string::npos ? std::string() : line.substr(text);
  }
  return {};
}

std::string locked_memory() {
  rlimit limit{};
  if (getrlimit(RLIMIT_MEMLOCK, &limit) != 0) return "unknown";
  return limit.rlim_cur == RLIM_INFINITY ? "none" : fmt::format("{} kB", limit.rlim_cur / 1024);
}

// The cgroup's CPU limit in processors, "none" without one. Only the unified hierarchy states it in one place.
std::string cpu_quota() {
  const std::string group = first_match("/proc/self/cgroup", "0::");
  std::ifstream file("/sys/fs/cgroup" + group + "/cpu.max");
  std::string quota;
  double period = 0;
  if (!(file >> quota >> period) || quota == "max" || period <= 0) return "none";
  return fmt::format("{:.2f} processors", std::strtod(quota.c_str(), nullptr) / period);
}

Json machine() {
  utsname system{};
  uname(&system);
  cpu_set_t mask;
  const bool known = sched_getaffinity(0, sizeof(mask), &mask) == 0;
  return {{"host", system.nodename},
          {"system", fmt::format("{} {} {}", system.sysname, system.release, system.machine)},
          {"processor", first_match("/proc/cpuinfo", "model name")},
          {"usable cpus", known ? std::to_string(CPU_COUNT(&mask)) : "unknown"},
          {"cpus online", std::to_string(sysconf(_SC_NPROCESSORS_ONLN))},
          {"cgroup cpu limit", cpu_quota()},
          {"memory", first_match("/proc/meminfo", "MemTotal")},
          {"locked memory limit", locked_memory()}};
}

Json kernels() {
  Json list = Json::array();
  for (const rondo::kernels::Table* table : rondo::kernels::usable()) list.push_back(std::string(table->isa));
  return {{"usable", list}, {"chosen", std::string(rondo::kernels::best().isa)}};
}

// Makes each transport as a job of one rank would and says what came of it.
Json transports(const Config& config) {
  Json list = Json::array();
  for (const rondo::TransportKind& kind : rondo::transport_kinds()) {
    rondo::TransportSettings settings;
    settings.config = &config;
    settings.bind_host = "127.0.0.1";
    const rondo::Result<std::unique_ptr<rondo::Transport>> made = kind.make(settings);
    list.push_back({{"name", std::string(kind.name)},
                    {"usable", made.ok()},
                    {"scope", kind.one_host ? "one host" : "any host"},
                    {"why not", made.ok() ? "" : made.status().text()}});
  }
  return list;
}

Json algorithms() {
  Json list = Json::array();
  for (const rondo::Algorithm& algorithm : rondo::algorithms()) {
    list.push_back({{"collective", std::string(rondo::name(algorithm.collective))},
                    {"name", std::string(algorithm.name)},
                    {"cost", std::string(algorithm.cost)}});
  }
  return list;
}

Json configuration(const Config& config) {
  Json list = Json::array();
  for (const rondo::ConfigRow& row : config.describe()) {
    list.push_back({{"name", row.name},
                    {"value", row.value},
                    {"source", row.source},
                    {"default", row.initial},
                    {"meaning", row.doc}});
  }
  return list;
}

void print(const std::string& text) { std::fputs(text.c_str(), stdout); }

void print_pairs(const char* title, const Json& object) {
  print(fmt::format("\n{}\n", title));
  for (const auto& [name, value] : object.items()) {
    std::string text = value.is_string() ? value.get<std::string>() : std::string();
    for (size_t index = 0; value.is_array() && index < value.size(); ++index) {
      if (index > 0) text += ' ';
      text += value[index].get<std::string>();
    }
    print(fmt::format("  {:<20} {}\n", name, text));
  }
}

void print_text(const Json& info) {
  print(fmt::format("rondo {}\n", info["version"].get<std::string>()));
  print_pairs("machine", info["machine"]);
  print_pairs("reduction kernels", info["kernels"]);
  print("\ntransports\n");
  for (const Json& row : info["transports"]) {
    print(fmt::format("  {:<20} {}, {}\n", row["name"].get<std::string>(), row["scope"].get<std::string>(),
                      row["usable"].get<bool>() ? "usable" : "not usable: " + row["why not"].get<std::string>()));
  }
  print("\nalgorithms\n");
  for (const Json& row : info["algorithms"]) {
    print(fmt::format("  {:<15} {:<12} {}\n", row["collective"].get<std::string>(), row["name"].get<std::string>(),
                      row["cost"].get<std::string>()));
  }
  print("\nconfiguration\n");
  for (const Json& row : info["configuration"]) {
    print(fmt::format("  {:<22} {:<20} {:<12} {}\n", row["name"].get<std::string>(),
                      row["value"].get<std::string>().empty() ? "-" : row["value"].get<std::string>(),
                      row["source"].get<std::string>(), row["meaning"].get<std::string>()));
  }
  for (const Json& line : info["warnings"]) print(fmt::format("\nwarning: {}\n", line.get<std::string>()));
}

}  // namespace

int main(int count, char** arguments) {
  CLI::App app("Shows what this build of Rondo is, what it finds on this machine, and how it is configured.",
               "rondo-info");
  bool as_json = false;
  std::string overrides;
  app.set_version_flag("--version", "rondo-info " RONDO_VERSION_STRING);
  app.add_flag("--json", as_json, "print JSON");
  app.add_option("--config", overrides, "\"NAME=value;...\", as in rondo_options.config");
  CLI11_PARSE(app, count, arguments);

  rondo::Result<Config> config = Config::from_environment(overrides.c_str());
  if (!config.ok()) {
    std::fputs(fmt::format("rondo-info: {}\n", config.status().text()).c_str(), stderr);
    return kExitFailed;
  }
  const Json info = {
      {"version", RONDO_VERSION_STRING},   {"machine", machine()},       {"kernels", kernels()},
      {"transports", transports(*config)}, {"algorithms", algorithms()}, {"configuration", configuration(*config)},
      {"warnings", config->warnings()}};
  if (as_json) {
    print(info.dump(1) + "\n");
  } else {
    print_text(info);
  }
  return 0;
}
