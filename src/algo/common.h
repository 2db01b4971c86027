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

// Folding: where the world is no power of two, the first 2 (p - q) ranks work in pairs, q the largest power of two
// within p: the even one hands its input to the odd one and sits out. The q others are numbered by id.
class Fold {
 public:
  Fold(uint32_t world, Rank me) : power_(std::bit_floor(world)), rest_(world - power_), me_(me) {}

  uint32_t power() const { return power_; }
  bool folded() const { return me_ < 2 * rest_ && me_ % 2 == 0; }
  bool absorbs() const { return me_ < 2 * rest_ && me_ % 2 == 1; }
  Rank partner() const { return me_ ^ 1; }  // of a rank that is folded or absorbs
  uint32_t id() const { return id_of(me_); }
  uint32_t id_of(Rank rank) const { return rank < 2 * rest_ ? rank / 2 : rank - rest_; }
  Rank rank_of(uint32_t id) const { return id < rest_ ? 2 * id + 1 : id + rest_; }

 private:
  uint32_t power_, rest_;
  Rank me_;
};

// The binomial tree rooted at Shape::root: with places counted from the root, the parent of a place clears its lowest
// set bit.
class Binomial {
 public:
  explicit Binomial(const Shape& shape) : world_(shape.world), root_(shape.root) {}

  Rank parent(Rank rank) const {
    const uint32_t at = place(rank);
    return rank_at(at & (at - 1));
  }
  // Smallest subtree first.
  Ranks children(Rank rank) const {
    const uint32_t at = place(rank);
    Ranks list;
    for (uint32_t bit = 1; at + bit < world_ && (at & bit) == 0; bit <<= 1) list.push_back(rank_at(at + bit));
    return list;
  }
  // The ranks below and with `rank`, itself first, each child's subtree in turn: the order in which blocks pass.
  Ranks subtree(Rank rank) const {
    Ranks list{rank};
    for (const Rank child : children(rank))
      for (const Rank below : subtree(child)) list.push_back(below);
    return list;
  }

 private:
  uint32_t place(Rank rank) const { return (rank + world_ - root_) % world_; }
  Rank rank_at(uint32_t place) const { return (place + root_) % world_; }

  uint32_t world_;
  Rank root_;
};

// The whole program where there is nobody to talk to: the input is the output. Every lane copies its chunk.
inline Schedule copy_input(const Shape& shape, Rank me) {
  Builder build(shape, me);
  for (uint32_t chunk = 0; chunk < shape.chunks; ++chunk)
    build.lane(chunk % shape.lanes).copy(input(chunk), output(chunk));
  return std::move(build).finish();
}

}  // namespace rondo::algo
