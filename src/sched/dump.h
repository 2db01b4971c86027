// The text form of Schedules: what rondo-sched prints and reads, and what golden tests compare. One line a step:
//
//   schedule allreduce world 4 rank 1 root 0 chunks 4 lanes 1
//   lane 0  0: input:1 -> send [2]
//   lane 0  1: reduce [0 1*] own input:0 -> send [2]
//   lane 0  3: reduce [0 1*] own input:2 -> output:2 -> send [2] final
//   lane 0  4: recv 0 -> output:1 -> send [2]
//
// A value (a chunk, "recv RANK", "reduce [RANKS] own CHUNK", "idle") and where it goes (a chunk, "send [RANKS]",
// "drop"); the star marks the own rank, "size CHUNK" the size where no chunk is written, "wait L:N" a wait for N steps
// of lane L. Pure; any thread.
#pragma once

#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/status.h"
#include "sched/schedule.h"

namespace rondo {

// One line without its lane and number. Fields out of bounds are printed as "?", so any Schedule may be described.
std::string describe(const Schedule& schedule, const Step& step);

// The whole program, ending in a newline; the concatenation of several is a file that parse() takes.
std::string dump(const Schedule& schedule);

// Reads what dump() writes; comments from '#' on and empty lines are skipped. The text may come from anyone: it is
// bounded, and errors name the line. The result is sound in structure (check_structure) but not verified. For sound
// schedules parse(dump(s)) equals s.
Result<std::vector<Schedule>> parse(std::string_view text);

// A Graphviz digraph of all steps: lanes as chains, messages as arrows. Messages pair as the streams do.
std::string dot(std::span<const Schedule> all_ranks);

// Line by line: "- " only in a, "+ " only in b, with the header lines where they differ; empty when they are equal.
std::string diff(const Schedule& a, const Schedule& b);

}  // namespace rondo
