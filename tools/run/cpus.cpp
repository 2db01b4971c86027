#include "run/cpus.h"

#include <sched.h>

#include <algorithm>
#include <charconv>
#include <fstream>
#include <iterator>
#include <map>
#include <string>

namespace rondo::run {
namespace {

constexpr int kCpusMax = 8192;
constexpr int kNodesMax = 1024;

std::string first_line(const std::string& path) {
  std::ifstream file(path);
  std::string line;
  std::getline(file, line);
  return line;
}

// The CPUs this process may run on. The mask must be large enough for the kernel's, so it grows until it is.
CpuList allowed_cpus() {
  for (int capacity = 1024; capacity <= kCpusMax; capacity *= 2) {
    cpu_set_t* set = CPU_ALLOC(capacity);
    if (set == nullptr) return {};
    const size_t bytes = CPU_ALLOC_SIZE(capacity);
    CpuList cpus;
    const bool known = sched_getaffinity(0, bytes, set) == 0;
    for (int cpu = 0; known && cpu < capacity; ++cpu) {
      if (CPU_ISSET_S(cpu, bytes, set)) cpus.push_back(cpu);
    }
    CPU_FREE(set);
    if (known) return cpus;
  }
  return {};
}

// Allowed CPUs by physical core, hyperthreads together. A machine that hides its topology has one core per CPU.
std::vector<CpuList> core_groups(const CpuList& allowed) {
  std::map<int, CpuList> by_first_sibling;
  for (int cpu : allowed) {
    const std::string path = "/sys/devices/system/cpu/cpu" + std::to_string(cpu) + "/topology/thread_siblings_list";
    const CpuList siblings = parse_cpu_list(first_line(path));
    by_first_sibling[siblings.empty() ? cpu : siblings.front()].push_back(cpu);
  }
  std::vector<CpuList> groups;
  for (auto& [first, cpus] : by_first_sibling) groups.push_back(std::move(cpus));
  return groups;
}

std::vector<CpuList> numa_groups(const CpuList& allowed) {
  std::vector<CpuList> groups;
  for (int node = 0; node < kNodesMax; ++node) {
    const std::string line = first_line("/sys/devices/system/node/node" + std::to_string(node) + "/cpulist");
    CpuList on_node = parse_cpu_list(line);
    CpuList cpus;
    std::sort(on_node.begin(), on_node.end());
    std::set_intersection(on_node.begin(), on_node.end(), allowed.begin(), allowed.end(), std::back_inserter(cpus));
    if (!cpus.empty()) groups.push_back(std::move(cpus));
  }
  if (groups.empty()) groups.push_back(allowed);
  return groups;
}

}  // namespace

CpuList parse_cpu_list(std::string_view text) {
  CpuList cpus;
  const char* at = text.data();
  const char* const end = at + text.size();
  while (at < end) {
    int first = 0;
    auto parsed = std::from_chars(at, end, first);
    if (parsed.ec != std::errc() || first < 0 || first >= kCpusMax) return cpus;
    at = parsed.ptr;
    int last = first;
    if (at < end && *at == '-') {
      parsed = std::from_chars(at + 1, end, last);
      if (parsed.ec != std::errc() || last < first || last >= kCpusMax) return cpus;
      at = parsed.ptr;
    }
    for (int cpu = first; cpu <= last; ++cpu) cpus.push_back(cpu);
    if (at < end && *at != ',') return cpus;
    ++at;
  }
  return cpus;
}

std::vector<CpuList> divide(const std::vector<CpuList>& groups, uint32_t ranks) {
  std::vector<CpuList> lists(ranks);
  const size_t count = groups.size();
  for (uint32_t rank = 0; rank < ranks && count > 0; ++rank) {
    const size_t first = rank * count / ranks;
    const size_t last = std::max(first + 1, (rank + 1) * count / ranks);
    for (size_t group = first; group < last; ++group) {
      lists[rank].insert(lists[rank].end(), groups[group].begin(), groups[group].end());
    }
  }
  return lists;
}

std::vector<CpuList> plan_cpus(Bind bind, uint32_t ranks) {
  const CpuList allowed = allowed_cpus();
  if (bind == Bind::none || allowed.empty()) return std::vector<CpuList>(ranks);
  if (bind == Bind::numa) return divide(numa_groups(allowed), ranks);
  return divide(core_groups(allowed), ranks);
}

}  // namespace rondo::run
