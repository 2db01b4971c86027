#include "perf/measure.h"

#include <algorithm>
#include <chrono>
#include <cmath>
#include <memory>
#include <numeric>

#include <fmt/format.h>

namespace rondo::perf {
namespace {

constexpr double kSecondsPerSize = 0.3;
constexpr uint32_t kIterationsLeast = 5, kIterationsMost = 2000;
// Ranks leave a barrier up to some microseconds apart, which would be most of the time of a small call. So calls that
// are shorter than kBurstNs are timed several at a time.
constexpr int64_t kBurstNs = 50'000;
constexpr uint32_t kBurstMost = 200, kBurstProbe = 16;

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

struct Iteration {
  int64_t nanoseconds = 0;
  int64_t wrong = 0;     // negative: not checked
  bool refused = false;  // UNSUPPORTED, which is the same on all ranks and starts nothing
};

struct FreeOperation {
  void operator()(rondo_op* op) const { rondo_op_free(op); }
};
using Operation = std::unique_ptr<rondo_op, FreeOperation>;

// One form of one call under measurement: what does not change between its iterations, and what they add up.
struct Run {
  const Job& job;
  const Call& call;
  Buffers buffers;
  Values& values;
  uint64_t& seed;
  Operation persistent;  // null: blocking calls are measured
  Iteration iteration;
  uint32_t burst = 1;

  rondo_status one_call() const {
    if (persistent == nullptr) return run(job.comm(), call, buffers.in, buffers.out);
    const rondo_status started = rondo_start(persistent.get());
    return started == RONDO_OK ? rondo_op_wait(persistent.get(), -1) : started;
  }
  std::string name() const { return fmt::format("{} of {} bytes", info(call.kind).name, call_bytes(call)); }
  // New data, everybody ready, the timed calls, the check.
  ErrorText once(uint32_t calls);
};

ErrorText Run::once(uint32_t calls) {
  using Clock = std::chrono::steady_clock;
  prepare(call, buffers, values, ++seed);
  if (const rondo_status status = rondo_barrier(job.comm(), nullptr); status != RONDO_OK) {
    return failure(job.comm(), status, "barrier");
  }
  const Clock::time_point start = Clock::now();
  for (uint32_t repeat = 0; repeat < calls; ++repeat) {
    if (const rondo_status status = one_call(); status != RONDO_OK) {
      iteration.refused = status == RONDO_ERR_UNSUPPORTED;
      return failure(job.comm(), status, name());
    }
  }
  iteration.nanoseconds = std::chrono::duration_cast<std::chrono::nanoseconds>(Clock::now() - start).count();
  if (iteration.wrong >= 0) iteration.wrong += static_cast<int64_t>(count_wrong(call, buffers, values, seed));
  return {};
}

// Runs the warm-up, every result of which is checked; `fastest_ns` is then the best of it, over the slowest rank.
ErrorText warm_up(Run& run, uint32_t rounds, int64_t& fastest_ns) {
  fastest_ns = INT64_MAX;
  for (uint32_t round = 0; round < rounds; ++round) {
    if (ErrorText text = run.once(1); !text.empty()) return text;
    fastest_ns = std::min(fastest_ns, run.iteration.nanoseconds);
  }
  std::vector<int64_t> slowest = {fastest_ns};
  if (ErrorText text = run.job.largest(run.call.kind, slowest); !text.empty()) return text;
  fastest_ns = std::max<int64_t>(slowest[0], 1);
  return {};
}

// Chooses how many calls make an iteration, alike on all ranks.
ErrorText choose_burst(Run& run, const Options& options, int64_t call_ns) {
  run.burst = options.burst;
  if (options.burst == 0 && call_ns < kBurstNs * 2) {
    if (ErrorText text = run.once(kBurstProbe); !text.empty()) return text;
    std::vector<int64_t> slowest = {run.iteration.nanoseconds / kBurstProbe};
    if (ErrorText text = run.job.largest(run.call.kind, slowest); !text.empty()) return text;
    call_ns = std::max<int64_t>(slowest[0], 1);
  }
  if (options.burst == 0) run.burst = static_cast<uint32_t>(std::clamp<int64_t>(kBurstNs / call_ns, 1, kBurstMost));
  return {};
}

// The timed iterations: as many as were asked for, or blocks of growing size until about kSecondsPerSize have passed by
// the clock of the slowest rank, data and checks included.
ErrorText time_iterations(Run& run, const Options& options, std::vector<int64_t>& times) {
  using Clock = std::chrono::steady_clock;
  const Clock::time_point start = Clock::now();
  const size_t most = options.iterations != 0 ? options.iterations : kIterationsMost;
  bool more = true;
  while (more) {
    const size_t grown = std::max<size_t>(kIterationsLeast, times.size() * 2);
    const size_t goal = options.iterations != 0 ? most : std::min(most, grown);
    while (times.size() < goal) {
      if (ErrorText text = run.once(run.burst); !text.empty()) return text;
      times.push_back(run.iteration.nanoseconds);
    }
    if (goal == most) return {};
    std::vector<int64_t> elapsed = {(Clock::now() - start) / std::chrono::nanoseconds(1)};
    if (ErrorText text = run.job.largest(run.call.kind, elapsed); !text.empty()) return text;
    more = static_cast<double>(elapsed[0]) * 2 < kSecondsPerSize * 1e9;  // the next block doubles the time
  }
  return {};
}

bool wants(const Options& options, const KindInfo& kind, Form form) {
  const bool in_place = form == Form::in_place;
  if (!(in_place ? kind.has_in_place : kind.has_out_of_place)) return false;
  if (kind.has_in_place != kind.has_out_of_place) return true;  // the only form it has
  return options.forms != (in_place ? Forms::out_of_place : Forms::in_place);
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
  timing.burst = burst;
  timing.mean_us = sum / static_cast<double>(count) / unit;
  timing.min_us = percentile(0);
  timing.p50_us = percentile(0.5);
  timing.p99_us = percentile(0.99);
  timing.max_us = percentile(1);
}

ErrorText measure(const Job& job, const Options& options, const Call& call, Form form, Values& values, uint64_t& seed,
                  Timing& timing) {
  const KindInfo& kind = info(call.kind);
  if (!wants(options, kind, form)) return {};
  Run run = {job, call, place(job, call, form), values, seed, nullptr, {0, options.check ? 0 : -1, false}};
  if (options.persistent) {
    rondo_op* op = nullptr;
    const rondo_status status = make_persistent(job.comm(), call, run.buffers.in, run.buffers.out, &op);
    run.persistent.reset(op);
    if (status == RONDO_ERR_UNSUPPORTED) timing.refusal = failure(job.comm(), status, run.name());
    if (status != RONDO_OK)
      return status == RONDO_ERR_UNSUPPORTED ? ErrorText() : failure(job.comm(), status, run.name());
  }
  int64_t call_ns = 0;
  const uint32_t rounds = options.verify_only ? 2 : std::max(options.warmup, 1u);
  if (ErrorText text = warm_up(run, rounds, call_ns); !text.empty()) {
    if (!run.iteration.refused) return text;
    timing.refusal = text;
    return {};
  }
  std::vector<int64_t> wrong = {run.iteration.wrong};
  // In place, a second call would reduce the result of the first: those results are checked in the warm-up alone.
  if (form == Form::in_place && kind.reduces && options.burst != 1) run.iteration.wrong = -1;
  std::vector<int64_t> times;
  if (!options.verify_only) {
    if (ErrorText text = choose_burst(run, options, call_ns); !text.empty()) return text;
    if (ErrorText text = time_iterations(run, options, times); !text.empty()) return text;
  }
  wrong[0] = std::max(wrong[0], run.iteration.wrong);
  if (ErrorText text = job.largest(call.kind, times); !text.empty()) return text;
  if (ErrorText text = job.total(call.kind, wrong); !text.empty()) return text;
  summarise(std::move(times), run.burst, timing);
  timing.measured = true;
  timing.wrong = options.check ? wrong[0] : -1;
  if (timing.p50_us > 0) timing.algorithm_gbs = static_cast<double>(call_bytes(call)) / timing.p50_us / 1e3;
  timing.bus_gbs = timing.algorithm_gbs * bus_factor(call.kind, call.world);
  return {};
}

}  // namespace rondo::perf
