#include "perf/measure.h"

#include <algorithm>
#include <chrono>
#include <cmath>
#include <numeric>

#include <fmt/format.h>

namespace rondo::perf {
namespace {

constexpr double kSecondsPerSize = 0.3;
constexpr uint32_t kIterationsLeast = 5, kIterationsMost = 2000;

struct Buffers {
  char* in;
  char* out;
};

// In place, everything lies in the out buffer, or for reduce_scatter in the in buffer, whose part is the result.
Buffers place(const Job& job, const Call& call, Form form) {
  Buffers buffers = {static_cast<char*>(job.in()), static_cast<char*>(job.out())};
  if (form == Form::out_of_place || call.kind == Kind::broadcast) return buffers;
  const size_t offset = in_place_offset(call) * rondo_dtype_size(call.dtype);
  if (call.kind == Kind::reduce_scatter) return {buffers.in, buffers.in + offset};
  return {buffers.out + offset, buffers.out};
}

bool gives_input(const Call& call) {
  const bool root_only = call.kind == Kind::broadcast || call.kind == Kind::scatter;
  return !root_only || call.rank == static_cast<uint32_t>(call.root);
}

void prepare(const Call& call, const Buffers& buffers, Values& values, uint64_t seed) {
  if (!gives_input(call)) return;
  values.fill(call.kind == Kind::broadcast ? buffers.out : buffers.in, in_elements(call), call.rank, 0, seed);
}

size_t count_wrong(const Call& call, const Buffers& buffers, Values& values, uint64_t seed) {
  size_t wrong = 0;
  for (const Expectation& expectation : expectations(call)) wrong += values.wrong(buffers.out, expectation, seed);
  return wrong;
}

// One iteration: new data, everybody ready, the timed calls, the check, which a negative `wrong` turns off.
ErrorText iterate(const Job& job, uint32_t burst, const Call& call, const Buffers& buffers, Values& values,
                  uint64_t seed, int64_t& nanoseconds, int64_t& wrong) {
  using Clock = std::chrono::steady_clock;
  prepare(call, buffers, values, seed);
  if (const rondo_status status = rondo_barrier(job.comm(), nullptr); status != RONDO_OK) {
    return failure(job.comm(), status, "barrier");
  }
  const Clock::time_point start = Clock::now();
  for (uint32_t repeat = 0; repeat < burst; ++repeat) {
    if (const rondo_status status = run(job.comm(), call, buffers.in, buffers.out); status != RONDO_OK) {
      return failure(job.comm(), status, fmt::format("{} of {} bytes", info(call.kind).name, call_bytes(call)));
    }
  }
  nanoseconds = std::chrono::duration_cast<std::chrono::nanoseconds>(Clock::now() - start).count();
  if (wrong >= 0) wrong += static_cast<int64_t>(count_wrong(call, buffers, values, seed));
  return {};
}

// The number of iterations, agreed by all ranks from the slowest rank's last warm-up.
ErrorText choose_iterations(const Job& job, const Options& options, Kind kind, int64_t warm_ns, uint32_t& iterations) {
  iterations = options.verify_only ? 1 : options.iterations;
  if (iterations != 0) return {};
  std::vector<int64_t> slowest = {warm_ns};
  if (ErrorText text = job.largest(kind, slowest); !text.empty()) return text;
  const double fitting = kSecondsPerSize * 1e9 / static_cast<double>(std::max<int64_t>(slowest[0], 1));
  iterations = static_cast<uint32_t>(std::clamp<double>(fitting, kIterationsLeast, kIterationsMost));
  return {};
}

}  // namespace

size_t call_bytes(const Call& call) {
  if (call.kind == Kind::barrier) return 0;
  return call.count * (info(call.kind).divided ? call.world : 1) * rondo_dtype_size(call.dtype);
}

void summarise(std::vector<int64_t> nanoseconds, uint32_t burst, Timing& timing) {
  if (nanoseconds.empty()) return;
  std::sort(nanoseconds.begin(), nanoseconds.end());
  const size_t count = nanoseconds.size();
  const double unit = 1e3 * burst;
  const auto percentile = [&](double part) {
    const auto rank = static_cast<size_t>(std::ceil(part * static_cast<double>(count)));
    return static_cast<double>(nanoseconds[std::clamp<size_t>(rank, 1, count) - 1]) / unit;
  };
  const double sum = static_cast<double>(std::accumulate(nanoseconds.begin(), nanoseconds.end(), int64_t{0}));
  timing.iterations = static_cast<uint32_t>(count);
  timing.mean_us = sum / static_cast<double>(count) / unit;
  timing.min_us = percentile(0);
  timing.p50_us = percentile(0.5);
  timing.p99_us = percentile(0.99);
}

ErrorText measure(const Job& job, const Options& options, const Call& call, Form form, Values& values, uint64_t& seed,
                  Timing& timing) {
  const KindInfo& kind = info(call.kind);
  const bool wanted = form == Form::in_place ? options.forms != Forms::out_of_place && kind.has_in_place
                                             : options.forms != Forms::in_place && kind.has_out_of_place;
  const bool only_form = kind.has_in_place != kind.has_out_of_place &&
                         (form == Form::in_place ? kind.has_in_place : kind.has_out_of_place);
  if (!wanted && !only_form) return {};
  const Buffers buffers = place(job, call, form);
  // Calls after the first would reduce the results of the one before.
  const bool checked = options.check && !(options.burst > 1 && form == Form::in_place && kind.reduces);
  int64_t wrong = checked ? 0 : -1, nanoseconds = 0;
  const uint32_t warmup = options.verify_only ? 1 : std::max(options.warmup, 1u);
  for (uint32_t round = 0; round < warmup; ++round) {
    ErrorText text = iterate(job, options.burst, call, buffers, values, ++seed, nanoseconds, wrong);
    if (!text.empty()) return text;
  }
  uint32_t iterations = 0;
  if (ErrorText text = choose_iterations(job, options, call.kind, nanoseconds, iterations); !text.empty()) return text;
  std::vector<int64_t> times(iterations);
  for (int64_t& time : times) {
    ErrorText text = iterate(job, options.burst, call, buffers, values, ++seed, time, wrong);
    if (!text.empty()) return text;
  }
  std::vector<int64_t> wrong_list = {wrong};
  if (ErrorText text = job.largest(call.kind, times); !text.empty()) return text;
  if (ErrorText text = job.total(call.kind, wrong_list); !text.empty()) return text;
  summarise(std::move(times), options.burst, timing);
  timing.measured = true;
  timing.wrong = checked ? wrong_list[0] : -1;
  if (timing.p50_us > 0) timing.algorithm_gbs = static_cast<double>(call_bytes(call)) / timing.p50_us / 1e3;
  timing.bus_gbs = timing.algorithm_gbs * bus_factor(call.kind, call.world);
  return {};
}

}  // namespace rondo::perf
