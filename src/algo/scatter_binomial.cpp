// Scatter along a binomial tree, rotated so that the root of the tree is the root. A rank gets the blocks of its
// subtree from the last place to the first, so that the largest subtree is served first, passes on those of others
// without storing them and keeps its own, which comes last. Cost: lg p hops, (p - 1)/p n bytes from the root.
#include "algo/common.h"

namespace rondo::algo {
namespace {

Schedule generate(const Shape& shape, Rank me) {
  const Binomial tree(shape.world, shape.root, me);
  Builder build(shape, me);
  for (uint32_t lane = 0; lane < shape.lanes; ++lane) {
    const uint32_t mine = chunk_of(shape, me, lane);
    build.lane(lane);
    for (uint32_t k = tree.size() - 1; k >= 1; --k) {
      const uint32_t chunk = chunk_of(shape, tree.rank_below(k), lane);
      if (me == shape.root) {
        build.send(input(chunk), tree.child_towards(k));
      } else {
        build.forward(tree.parent(), input(chunk), Ranks{tree.child_towards(k)});
      }
    }
    if (me == shape.root) {
      build.copy(input(mine), output(mine));
    } else {
      build.recv(tree.parent(), output(mine));
    }
  }
  return std::move(build).finish();
}

}  // namespace

extern constinit const Algorithm scatter_binomial = {
    .collective = Collective::scatter,
    .name = "binomial",
    .generate = generate,
    .chunks = one_chunk_a_rank_and_lane,
    .order = SumOrder::none,
    .cost = "lg p hops, (p-1)/p n bytes at the root; small n",
};

}  // namespace rondo::algo
