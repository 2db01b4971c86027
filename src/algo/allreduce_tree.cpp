// Allreduce, double binary tree. Two trees span the ranks so that (nearly) everyone is a leaf in one and inner in the
// other; each reduces and broadcasts half of the data, and both halves of every link are busy. Slices make it a
// pipeline.
//
//   tree of 8:  0 <- 4 <- 2 6,  2 <- 1 3,  6 <- 5 7         second tree: mirrored (even p) or shifted by one (odd p)
//
// Lane l carries chunk l along tree l mod 2. Cost: about 2 lg p hops, 2 n bytes a rank at most.
// Sanders, Speck and Traeff, "Two-tree algorithms for full bandwidth broadcast, reduction and scan", 2009.
#include "algo/common.h"

namespace rondo::algo {
namespace {

// The parent of r, lowest set bit b: (r ^ b) | (b << 1), or r ^ b where that is out of range. Rank 0 is the root.
class DoubleTree {
 public:
  DoubleTree(uint32_t world, bool second) : world_(world), second_(second) {}

  bool has_parent(Rank rank) const { return place(rank) != 0; }
  Rank parent(Rank rank) const {
    const uint32_t at = place(rank), bit = at & (~at + 1);
    const uint32_t up = (at ^ bit) | (bit << 1);
    return rank_at(up < world_ ? up : at ^ bit);
  }
  Ranks children(Rank rank) const {
    Ranks list;
    for (Rank other = 0; other < world_; ++other)
      if (has_parent(other) && parent(other) == rank) list.push_back(other);
    return list;
  }

 private:
  uint32_t place(Rank rank) const {
    if (!second_) return rank;
    return world_ % 2 == 0 ? world_ - 1 - rank : (rank + world_ - 1) % world_;
  }
  Rank rank_at(uint32_t place) const {
    if (!second_) return place;
    return world_ % 2 == 0 ? world_ - 1 - place : (place + 1) % world_;
  }

  uint32_t world_;
  bool second_;
};

Schedule generate(const Shape& shape, Rank me) {
  if (shape.world == 1) return copy_input(shape, me);
  Builder build(shape, me);
  for (uint32_t lane = 0; lane < shape.lanes; ++lane) {
    const DoubleTree tree(shape.world, lane % 2 == 1);
    const Ranks children = tree.children(me);
    Ranks operands = children;
    operands.push_back(me);
    std::sort(operands.begin(), operands.end());
    build.lane(lane);
    if (!tree.has_parent(me)) {
      build.reduce_store_send({.operands = operands, .own = input(lane), .final = true}, output(lane), children);
      continue;
    }
    const Ranks parent{tree.parent(me)};
    if (children.empty()) {
      build.send(input(lane), parent);
    } else {
      build.reduce_send({.operands = operands, .own = input(lane)}, parent);
    }
    build.recv_send(parent[0], output(lane), children);
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
    .cost = "~2 lg p hops, 2 n bytes over two trees (two lanes); large p",
};

}  // namespace rondo::algo
