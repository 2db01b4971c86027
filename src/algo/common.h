// What several algorithm files share: rank lists, the ring order, chunk counts. Pure; any thread.
#pragma once

#include <algorithm>
#include <bit>
#include <cstdint>
#include <vector>

#include "algo/registry.h"
#include "base/check.h"
#include "sched/builder.h"

namespace rondo::algo {

using Ranks = std::vector<uint32_t>;

// Chunk counts for the registry.
constexpr uint32_t one_chunk_a_lane(uint32_t, uint32_t lanes) { return lanes; }
constexpr uint32_t one_chunk_a_rank_and_lane(uint32_t world, uint32_t lanes) { return world * lanes; }

// Block `block` of a buffer of one_chunk_a_rank_and_lane chunks: the chunk that `lane` handles.
inline uint32_t chunk_of(const Shape& shape, uint32_t block, uint32_t lane) { return block * shape.lanes + lane; }

inline Ranks all_ranks(uint32_t world) {
  Ranks list(world);
  for (uint32_t rank = 0; rank < world; ++rank) list[rank] = rank;
  return list;
}

// The others, beginning with the next rank: when everyone sends in this order, nobody is everyone's first.
inline Ranks others_after(uint32_t world, Rank me) {
  Ranks list;
  for (uint32_t k = 1; k < world; ++k) list.push_back((me + k) % world);
  return list;
}

// The others, beginning with the rank before: those whose others_after() begins with me come first.
inline Ranks others_before(uint32_t world, Rank me) {
  Ranks list;
  for (uint32_t k = 1; k < world; ++k) list.push_back((me + world - k) % world);
  return list;
}

// Two operands in the order of their ranks.
inline Ranks pair(uint32_t a, uint32_t b) { return {std::min(a, b), std::max(a, b)}; }

// The order of ranks on a ring or chain: Shape::order, or 0, 1, 2 ...
class RingOrder {
 public:
  explicit RingOrder(const Shape& shape) : ranks_(shape.order.begin(), shape.order.end()) {
    if (ranks_.empty()) ranks_ = all_ranks(shape.world);
    RONDO_CHECK(ranks_.size() == shape.world);
  }
  // The rank `ahead` places after position `at`.
  uint32_t rank(uint32_t at, uint32_t ahead = 0) const { return ranks_[(at + ahead) % ranks_.size()]; }
  uint32_t before(uint32_t at) const { return rank(at, static_cast<uint32_t>(ranks_.size()) - 1); }
  uint32_t position(uint32_t rank) const {
    return static_cast<uint32_t>(std::find(ranks_.begin(), ranks_.end(), rank) - ranks_.begin());
  }

 private:
  Ranks ranks_;
};

// The whole program where there is nobody to talk to: the input is the output. Every lane copies its chunk.
inline Schedule copy_input(const Shape& shape, Rank me) {
  Builder build(shape, me);
  for (uint32_t chunk = 0; chunk < shape.chunks; ++chunk)
    build.lane(chunk % shape.lanes).copy(input(chunk), output(chunk));
  return std::move(build).finish();
}

}  // namespace rondo::algo
