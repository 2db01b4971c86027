// Which CPUs each rank is bound to. Reads the affinity mask of the launcher and the kernel's topology files; the
// division itself is a pure function. Used once, before the ranks start.
#pragma once

#include <cstdint>
#include <string_view>
#include <vector>

#include "run/options.h"

namespace rondo::run {

using CpuList = std::vector<int>;

// "0-3,8,10-11" as the kernel writes it; text that is not such a list ends it.
CpuList parse_cpu_list(std::string_view text);

// Gives each of `ranks` ranks its share of `groups` (cores or NUMA nodes): consecutive groups when there are at least
// as many groups as ranks, one shared group otherwise.
std::vector<CpuList> divide(const std::vector<CpuList>& groups, uint32_t ranks);

// One list per rank; an empty list leaves that rank unbound.
std::vector<CpuList> plan_cpus(Bind bind, uint32_t ranks);

}  // namespace rondo::run
