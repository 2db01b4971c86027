// The measuring loop that every library in bench/compare runs, so that only the allreduce differs. One process is one
// rank.
//
// For each size, after a few calls: samples of K back-to-back calls (K = 1 from 64 KiB up); the input is rewritten
// before each sample and touched before each call; a sample's time is the largest over ranks; printed is the median, in
// ns per call, as one JSON line a size on rank 0. The last result of each size is checked.
#pragma once

#include <time.h>

#include <algorithm>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <sstream>
#include <string>
#include <vector>

namespace peers {

class Engine {
 public:
  virtual ~Engine() = default;
  virtual int rank() const = 0;
  virtual int world() const = 0;
  virtual void allreduce(const float* in, float* out, size_t count) = 0;  // sum; ends the process on failure
  virtual void max(double* values, size_t count) = 0;                     // in place, over ranks
  virtual void barrier() = 0;
  virtual float* buffer(size_t count) {
    return static_cast<float*>(std::aligned_alloc(4096, (count * 4 + 4095) / 4096 * 4096));
  }
};

constexpr int kWarmUp = 5;

inline int64_t now_ns() {
  timespec t;
  clock_gettime(CLOCK_MONOTONIC, &t);
  return static_cast<int64_t>(t.tv_sec) * 1'000'000'000 + t.tv_nsec;
}

// usage: PROGRAM bytes,bytes,... milliseconds-per-size
inline int run(Engine& engine, int argc, char** argv) {
  if (argc < 3) {
    std::fprintf(stderr, "usage: %s bytes,bytes,... milliseconds-per-size\n", argv[0]);
    return 2;
  }
  std::vector<size_t> sizes;
  std::stringstream list(argv[1]);
  for (std::string item; std::getline(list, item, ',');) sizes.push_back(std::strtoull(item.c_str(), nullptr, 10));
  const double budget_ns = std::atof(argv[2]) * 1e6;
  const size_t largest = *std::max_element(sizes.begin(), sizes.end());
  float *in = engine.buffer(largest / 4 + 1), *out = engine.buffer(largest / 4 + 1);
  bool wrong = false;
  for (const size_t bytes : sizes) {
    const size_t count = bytes / sizeof(float);
    const int calls = bytes >= (64 << 10) ? 1 : bytes >= (4 << 10) ? 4 : 20;
    const auto sample = [&](int number) {
      // Quick, since a rank that shares its processor with one that fills its input waits for that too.
      const auto shift = static_cast<uint32_t>(number + engine.rank());
      for (size_t i = 0; i < count; ++i) in[i] = static_cast<float>((static_cast<uint32_t>(i) + shift) % 8);
      engine.barrier();
      const int64_t begin = now_ns();
      for (int i = 0; i < calls; ++i) {
        in[static_cast<size_t>(i) % count] = static_cast<float>(i % 8);
        engine.allreduce(in, out, count);
      }
      return static_cast<double>(now_ns() - begin) / calls;
    };
    // What is made on first use, by whatever library, is made here.
    for (int i = 0; i < kWarmUp; ++i) sample(i);
    double first[1] = {std::max(sample(0), sample(1))};
    engine.max(first, 1);
    const int samples = std::clamp(static_cast<int>(budget_ns / (first[0] * calls + 1)), 5, 2000);
    std::vector<double> times(static_cast<size_t>(samples));
    for (int i = 0; i < samples; ++i) times[static_cast<size_t>(i)] = sample(i);
    engine.max(times.data(), times.size());
    const size_t last = count - 1;
    float expected = 0;
    for (int rank = 0; rank < engine.world(); ++rank) {
      const size_t number = static_cast<size_t>(samples - 1);
      expected +=
          last < static_cast<size_t>(calls)
              ? static_cast<float>((calls - 1 - (calls - 1 - static_cast<int>(last)) % static_cast<int>(count)) % 8)
              : static_cast<float>((last + number + static_cast<size_t>(rank)) % 8);
    }
    if (out[last] != expected) {
      std::fprintf(stderr, "rank %d, %zu bytes: the last element is %g, expected %g\n", engine.rank(), bytes,
                   static_cast<double>(out[last]), static_cast<double>(expected));
      wrong = true;
    }
    std::sort(times.begin(), times.end());
    if (engine.rank() == 0) {
      std::printf("{\"bytes\": %zu, \"ns\": %.1f, \"p99_ns\": %.1f, \"samples\": %d}\n", bytes, times[times.size() / 2],
                  times[times.size() * 99 / 100], samples);
      std::fflush(stdout);
    }
  }
  return wrong ? 1 : 0;
}

}  // namespace peers
