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

// A binomial tree over `world` places, place 0 at `root`, as seen by one rank. Place v has the children v + 1, v + 2,
// v + 4 ... below its lowest set bit; its subtree is the places from v on.
class Binomial {
 public:
  Binomial(uint32_t world, uint32_t root, Rank me) : world_(world), root_(root), place_((me + world - root) % world) {}

  uint32_t parent() const { return rank(place_ & (place_ - 1)); }
  // The child with the largest subtree first.
  Ranks children() const {
    Ranks list;
    for (uint32_t bit = std::bit_floor(world_); bit >= 1; bit /= 2)
      if (bit < size()) list.push_back(rank(place_ + bit));
    return list;
  }
  // Places in this rank's subtree, its own among them.
  uint32_t size() const { return place_ == 0 ? world_ : std::min(place_ & (~place_ + 1), world_ - place_); }
  // Place `k` of the subtree, and the child whose subtree it is in; 1 <= k < size().
  uint32_t rank_below(uint32_t k) const { return rank(place_ + k); }
  uint32_t child_towards(uint32_t k) const { return rank(place_ + std::bit_floor(k)); }

 private:
  uint32_t rank(uint32_t place) const { return (place + root_) % world_; }
  uint32_t world_, root_, place_;
};

// Folding a world to a power of two: the odd ranks among the first 2 (world - survivors) each fold into the even rank
// before them, their twin. The others, the survivors, have positions 0, 1, 2 ... in rank order.
class Fold {
 public:
  Fold(uint32_t world, Rank me) : survivors_(std::bit_floor(world)), paired_(2 * (world - survivors_)), me_(me) {}

  uint32_t survivors() const { return survivors_; }
  bool has_twin() const { return me_ < paired_; }
  bool folded_away() const { return has_twin() && me_ % 2 == 1; }
  uint32_t twin() const { return me_ ^ 1; }
  // A folded rank has the position of its twin.
  uint32_t position() const { return me_ < paired_ ? me_ / 2 : me_ - paired_ / 2; }
  // The survivor at the position that differs in the bit `distance`.
  uint32_t partner(uint32_t distance) const {
    const uint32_t other = position() ^ distance;
    return other < paired_ / 2 ? other * 2 : other + paired_ / 2;
  }

 private:
  uint32_t survivors_, paired_;
  Rank me_;
};

// The whole program where there is nobody to talk to: the input is the output. Every lane copies its chunk.
inline Schedule copy_input(const Shape& shape, Rank me) {
  Builder build(shape, me);
  for (uint32_t chunk = 0; chunk < shape.chunks; ++chunk)
    build.lane(chunk % shape.lanes).copy(input(chunk), output(chunk));
  return std::move(build).finish();
}

}  // namespace rondo::algo
