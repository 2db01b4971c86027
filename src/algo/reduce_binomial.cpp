// Reduce along a binomial tree, rotated so that the root of the tree is the root. A rank waits for all of its children,
// adds their sums and its own input in one reduction, by rank, and sends that to its parent; nothing is stored on the
// way.
//
//   0 - 1, 2, 4;   2 - 3;   4 - 5, 6;   6 - 7        (8 ranks, root 0)
//
// Cost: lg p hops, n bytes from each rank but the root, lg p n into the root.
#include "algo/common.h"

namespace rondo::algo {
namespace {

Schedule generate(const Shape& shape, Rank me) {
  if (shape.world == 1) return copy_input(shape, me);
  const Binomial tree(shape.world, shape.root, me);
  Ranks operands = tree.children();
  operands.push_back(me);
  std::sort(operands.begin(), operands.end());
  Builder build(shape, me);
  for (uint32_t lane = 0; lane < shape.lanes; ++lane) {
    build.lane(lane);
    if (me == shape.root) {
      build.reduce_store({.operands = operands, .own = input(lane), .final = true}, output(lane));
    } else if (operands.size() == 1) {
      build.send(input(lane), tree.parent());
    } else {
      build.reduce_send({.operands = operands, .own = input(lane)}, Ranks{tree.parent()});
    }
  }
  return std::move(build).finish();
}

}  // namespace

extern constinit const Algorithm reduce_binomial = {
    .collective = Collective::reduce,
    .name = "binomial",
    .generate = generate,
    .chunks = one_chunk_a_lane,
    .order = SumOrder::own,
    .cost = "lg p hops, lg p n bytes at the root; small n",
};

}  // namespace rondo::algo
