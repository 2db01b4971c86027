// Gather along a binomial tree, rotated so that the root of the tree is the root. A rank sends its own block and then
// passes on those of its subtree, in the order of the tree's places, without storing them. Cost: lg p hops, (p - 1)/p n
// bytes into the root in fewer, longer trains.
#include "algo/common.h"

namespace rondo::algo {
namespace {

Schedule generate(const Shape& shape, Rank me) {
  const Binomial tree(shape.world, shape.root, me);
  Builder build(shape, me);
  for (uint32_t lane = 0; lane < shape.lanes; ++lane) {
    const uint32_t mine = chunk_of(shape, me, lane);
    build.lane(lane);
    if (me == shape.root) {
      build.copy(input(mine), output(mine));
    } else {
      build.send(input(mine), tree.parent());
    }
    for (uint32_t k = 1; k < tree.size(); ++k) {
      const uint32_t chunk = chunk_of(shape, tree.rank_below(k), lane);
      if (me == shape.root) {
        build.recv(tree.child_towards(k), output(chunk));
      } else {
        build.forward(tree.child_towards(k), input(chunk), Ranks{tree.parent()});
      }
    }
  }
  return std::move(build).finish();
}

}  // namespace

extern constinit const Algorithm gather_binomial = {
    .collective = Collective::gather,
    .name = "binomial",
    .generate = generate,
    .chunks = one_chunk_a_rank_and_lane,
    .order = SumOrder::none,
    .cost = "lg p hops, (p-1)/p n bytes at the root; small n",
};

}  // namespace rondo::algo
