// Allreduce over a double binary tree. Even lanes add up along one tree and hand the result back down, odd lanes along
// a second one in which the inner ranks of the first are leaves (except one rank for odd worlds), so with an even
// number of lanes every rank sends and receives about n in each direction. Slices pipeline through the trees.
//
//   first tree of 6:   0 - 4,  4 - 2 and 5,  2 - 1 and 3        second: ranks mirrored (even world) or shifted (odd)
//
// In the first tree, rank r with lowest set bit b hangs below (r ^ b) | 2b, or below r ^ b where that is outside.
// A rank adds its children's sums and its own input in one reduction, by rank, and stores nothing on the way up.
// Cost: about 2 lg p hops, 2 n bytes with both trees at half load.
// Sanders, Speck and Traeff, "Two-tree algorithms for full bandwidth broadcast, reduction and scan", 2009.
#include "algo/common.h"

namespace rondo::algo {
namespace {

struct Tree {
  uint32_t world;
  bool second;

  // The root is its own parent.
  uint32_t parent(uint32_t rank) const { return to_rank(parent_place(to_place(rank))); }
  Ranks children(uint32_t rank) const {
    Ranks list;
    const uint32_t place = to_place(rank);
    // A child's lowest set bit is below the place's own, and it is one or two bits away.
    for (uint32_t bit = 1; bit < world; bit *= 2)
      for (const uint32_t child : {place ^ bit, (place ^ bit) ^ (bit << 1)})
        if (child < world && child != place && parent_place(child) == place) list.push_back(to_rank(child));
    std::sort(list.begin(), list.end());
    list.erase(std::unique(list.begin(), list.end()), list.end());
    return list;
  }

 private:
  uint32_t parent_place(uint32_t place) const {
    if (place == 0) return 0;
    const uint32_t bit = place & (~place + 1);
    const uint32_t above = (place ^ bit) | (bit << 1);
    return above < world ? above : place ^ bit;
  }
  uint32_t to_place(uint32_t rank) const {
    if (!second) return rank;
    return world % 2 == 0 ? world - 1 - rank : (rank + world - 1) % world;
  }
  uint32_t to_rank(uint32_t place) const {
    if (!second) return place;
    return world % 2 == 0 ? world - 1 - place : (place + 1) % world;
  }
};

Schedule generate(const Shape& shape, Rank me) {
  if (shape.world == 1) return copy_input(shape, me);
  Builder build(shape, me);
  for (uint32_t lane = 0; lane < shape.lanes; ++lane) {
    const Tree tree{shape.world, lane % 2 == 1};
    const uint32_t parent = tree.parent(me);
    const Ranks children = tree.children(me);
    Ranks operands = children;
    operands.push_back(me);
    std::sort(operands.begin(), operands.end());
    build.lane(lane);
    if (parent == me) {
      build.reduce_store_send({.operands = operands, .own = input(lane), .final = true}, output(lane), children);
      continue;
    }
    if (children.empty()) {
      build.send(input(lane), parent);
    } else {
      build.reduce_send({.operands = operands, .own = input(lane)}, Ranks{parent});
    }
    build.recv_send(parent, output(lane), children);
  }
  return std::move(build).finish();
}

}  // namespace

extern constinit const Algorithm allreduce_tree = {
    .collective = Collective::allreduce,
    .name = "tree",
    .generate = generate,
    .chunks = one_chunk_a_lane,
    .order = SumOrder::own,
    .cost = "about 2 lg p hops, 2 n bytes; large p, even lanes, slices",
};

}  // namespace rondo::algo
