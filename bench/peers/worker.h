// The measuring loop that every library in bench/compare runs, so that only the collective differs. One process is one
// rank.
//
// A size is that of the larger of a rank's two buffers, of fp32 in whole blocks a rank where the collective has blocks.
// For each size, after a few calls: samples of K back-to-back calls (K = 1 from 64 KiB up); the input is rewritten
// before each sample and touched before each call; a sample's time is the largest over ranks; printed is the median, in
// ns per call, as one JSON line a size on rank 0. Then one more call of each size is checked whole.
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

enum class Collective { allreduce, reduce_scatter, allgather, broadcast, alltoall };
constexpr const char* kNames[] = {"allreduce", "reduce_scatter", "allgather", "broadcast", "alltoall"};

// One call: `count` elements of the larger buffer, of which a rank's block is count / world. Sums; root 0.
struct Call {
  Collective collective;
  float *in, *out;
  size_t count, block;
};

class Engine {
 public:
  virtual ~Engine() = default;
  virtual int rank() const = 0;
  virtual int world() const = 0;
  virtual void run(const Call& call) = 0;              // ends the process on failure; broadcast: in `out`
  virtual void max(double* values, size_t count) = 0;  // in place, over ranks
  virtual void barrier() = 0;
  virtual float* buffer(size_t count) {
    return static_cast<float*>(std::aligned_alloc(4096, (count * 4 + 4095) / 4096 * 4096));
  }
};

inline int64_t now_ns() {
  timespec t;
  clock_gettime(CLOCK_MONOTONIC, &t);
  return static_cast<int64_t>(t.tv_sec) * 1'000'000'000 + t.tv_nsec;
}

// Small whole numbers, other ones on every rank.
inline void fill(float* data, size_t count, int number, int rank) {
  // Quick, since a rank that shares its processor with one that fills its input waits for that too.
  const auto shift = static_cast<uint32_t>(number + rank);
  for (size_t i = 0; i < count; ++i) data[i] = static_cast<float>((static_cast<uint32_t>(i) + shift) % 8);
}

// The first wrong element of a call whose inputs were fill(data, elements, 3, rank); -1: none.
inline int64_t first_wrong(const Call& call, int rank, int world) {
  const auto at = [&](size_t i, int of) { return static_cast<float>((i + 3 + static_cast<size_t>(of)) % 8); };
  const auto sum = [&](size_t i) {
    float all = 0;
    for (int of = 0; of < world; ++of) all += at(i, of);
    return all;
  };
  const size_t mine = static_cast<size_t>(rank) * call.block;
  const size_t elements = call.collective == Collective::reduce_scatter ? call.block : call.count;
  for (size_t i = 0; i < elements; ++i) {
    const int owner = static_cast<int>(i / call.block);
    const float expected = call.collective == Collective::allreduce        ? sum(i)
                           : call.collective == Collective::reduce_scatter ? sum(mine + i)
                           : call.collective == Collective::allgather      ? at(i % call.block, owner)
                           : call.collective == Collective::broadcast      ? at(i, 0)
                                                                           : at(mine + i % call.block, owner);
    if (call.out[i] != expected) return static_cast<int64_t>(i);
  }
  return -1;
}

constexpr int kWarmUp = 5;

// usage: PROGRAM bytes,bytes,... milliseconds-per-size [collective]
inline int run(Engine& engine, int argc, char** argv) {
  const std::string name = argc > 3 ? argv[3] : kNames[0];
  const auto* const found = std::find(std::begin(kNames), std::end(kNames), name);
  if (argc < 3 || found == std::end(kNames)) {
    std::fprintf(stderr, "usage: %s bytes,bytes,... milliseconds-per-size [collective]\n", argv[0]);
    return 2;
  }
  const auto collective = static_cast<Collective>(found - std::begin(kNames));
  const bool whole = collective == Collective::allreduce || collective == Collective::broadcast;
  const auto world = static_cast<size_t>(engine.world());
  std::vector<size_t> sizes;
  std::stringstream list(argv[1]);
  for (std::string item; std::getline(list, item, ',');) sizes.push_back(std::strtoull(item.c_str(), nullptr, 10));
  const double budget_ns = std::atof(argv[2]) * 1e6;
  const size_t room = *std::max_element(sizes.begin(), sizes.end()) / sizeof(float) + world;
  float *in = engine.buffer(room), *out = engine.buffer(room);
  bool wrong = false;
  for (const size_t bytes : sizes) {
    const size_t block = whole ? bytes / sizeof(float) : std::max<size_t>(bytes / sizeof(float) / world, 1);
    const Call call{collective, in, out, whole ? block : block * world, block};
    float* const input = collective == Collective::broadcast ? out : in;
    const size_t elements = collective == Collective::allgather ? block : call.count;
    const int calls = bytes >= (64 << 10) ? 1 : bytes >= (4 << 10) ? 4 : 20;
    const auto sample = [&](int number) {
      fill(input, elements, number, engine.rank());
      engine.barrier();
      const int64_t begin = now_ns();
      for (int i = 0; i < calls; ++i) {
        input[static_cast<size_t>(i) % elements] = static_cast<float>(i % 8);
        engine.run(call);
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
    fill(input, elements, 3, engine.rank());
    engine.run(call);
    const int64_t at = first_wrong(call, engine.rank(), engine.world());
    if (at >= 0) {
      std::fprintf(stderr, "rank %d, %s of %zu bytes: element %lld is %g\n", engine.rank(), name.c_str(), bytes,
                   static_cast<long long>(at), static_cast<double>(out[at]));
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
