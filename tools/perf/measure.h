// Timing and checking one collective of one size in one form. All ranks run this together.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "perf/job.h"
#include "perf/values.h"

namespace rondo::perf {

// What came out; the same on all ranks. Times are of one call, the longest over the ranks; an iteration of several
// calls counts with its mean.
struct Timing {
  bool measured = false;               // false: the collective has no such form, or it was not asked for
  uint32_t iterations = 0, burst = 0;  // burst: calls per iteration
  double mean_us = 0, p50_us = 0, p99_us = 0, min_us = 0, max_us = 0;
  double algorithm_gbs = 0, bus_gbs = 0;  // 1e9 bytes per second, from the median
  int64_t wrong = -1;                     // elements over all ranks and iterations; -1: not checked
  std::string refusal;                    // why the call is UNSUPPORTED, when it is; nothing is measured then
};

enum class Form : uint8_t { out_of_place, in_place };

// Fills `timing`. `seed` numbers the iterations of the whole run, so that no two have the same data.
ErrorText measure(const Job& job, const Options& options, const Call& call, Form form, Values& values, uint64_t& seed,
                  Timing& timing);

// The pure part: mean and percentiles (nearest rank) of the iterations' nanoseconds, each of `burst` calls.
void summarise(std::vector<int64_t> nanoseconds, uint32_t burst, Timing& timing);

// The bytes that the size column and the bandwidths of a call stand for.
size_t call_bytes(const Call& call);

}  // namespace rondo::perf
