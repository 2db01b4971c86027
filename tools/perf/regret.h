// --regret: whether the chosen algorithm of every call is about as quick as the best that could be forced.
#pragma once

#include <vector>

#include "perf/job.h"

namespace rondo::perf {

// A choice is a defect where the lower bound of its regret is larger.
inline constexpr double kRegretMost = 1.15;

// Measures every call, with the alternatives in turn, and prints one line a call on rank 0 (`speaks`). `*defects`:
// choices that are slower than they need be.
ErrorText measure_regret(const Job& job, const Options& options, const std::vector<Call>& calls, size_t in_bytes,
                         size_t out_bytes, bool speaks, int* defects);

}  // namespace rondo::perf
