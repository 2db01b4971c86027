// Broadcast along a binomial tree, rotated so that the root of the tree is the root. A rank publishes once for all of
// its children, the one with the largest subtree first in the list.
//
//   0 - 4, 2, 1;   4 - 6, 5;   2 - 3;   6 - 7        (8 ranks, root 0)
//
// Cost: lg p hops, lg p n bytes from the root.
#include "algo/common.h"

namespace rondo::algo {
namespace {

Schedule generate(const Shape& shape, Rank me) {
  const Binomial tree(shape.world, shape.root, me);
  const Ranks children = tree.children();
  Builder build(shape, me);
  for (uint32_t lane = 0; lane < shape.lanes; ++lane) {
    build.lane(lane);
    if (me == shape.root) {
      build.copy_send(input(lane), output(lane), children);
    } else {
      build.recv_send(tree.parent(), output(lane), children);
    }
  }
  return std::move(build).finish();
}

}  // namespace

extern constinit const Algorithm broadcast_binomial = {
    .collective = Collective::broadcast,
    .name = "binomial",
    .generate = generate,
    .chunks = one_chunk_a_lane,
    .order = SumOrder::none,
    .cost = "lg p hops, lg p n bytes; small n",
};

}  // namespace rondo::algo
