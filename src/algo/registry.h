// The list of all algorithms. The verifier's tests, the tuner, the benchmark and rondo-sched iterate over it, so a new
// algorithm is one file in src/algo and one line in registry.cpp. Pure; any thread.
#pragma once

#include <span>
#include <string_view>

#include "sched/schedule.h"

namespace rondo {

// The order in which an algorithm adds up: equal orders give equal bits.
enum class SumOrder : uint8_t {
  none,       // no reduction
  canonical,  // every element by the canonical tree over all ranks, once (owner sums)
  own,        // an order of the algorithm's own, fixed by world and chunks
};

// What runs an algorithm: its steps, or an intrinsic over shared memory.
enum class Means : uint8_t {
  steps,
  cells,      // the one-shot exchange
  workspace,  // rounds through memory that all ranks write, every rank making its own part
  claims,     // the same, whoever is running sums the next piece
};

struct Algorithm {
  Collective collective;
  std::string_view name;
  Schedule (*generate)(const Shape& shape, Rank rank);  // null: not by steps
  uint32_t (*chunks)(uint32_t world, uint32_t lanes);   // the number of chunks that the algorithm divides the work into
  SumOrder order;
  std::string_view cost;  // one line: hops and bytes
  Means means = Means::steps;
};

std::span<const Algorithm> algorithms();
// Null when there is none.
const Algorithm* find_algorithm(Collective collective, std::string_view name);

}  // namespace rondo
