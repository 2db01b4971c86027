// Scatter along a binomial tree: the root sends each child the blocks of its subtree, the child's own first; inner
// ranks pass on what is not theirs without storing it. Cost: ceil(lg p) hops; a block travels as many as its rank is
// deep.
#include "algo/common.h"

namespace rondo::algo {
namespace {

Schedule generate(const Shape& shape, Rank me) {
  const Binomial tree(shape);
  Builder build(shape, me);
  for (uint32_t lane = 0; lane < shape.lanes; ++lane) {
    const uint32_t mine = chunk_of(shape, me, lane);
    build.lane(lane);
    if (me != shape.root) build.recv(tree.parent(me), output(mine));
    for (const uint32_t child : tree.children(me)) {
      for (const uint32_t block : tree.subtree(child)) {
        const At whole = input(chunk_of(shape, block, lane));
        if (me == shape.root) {
          build.send(whole, child);
        } else {
          build.forward(tree.parent(me), whole, Ranks{child});
        }
      }
    }
    if (me == shape.root) build.copy(input(mine), output(mine));
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
    .cost = "ceil(lg p) hops, blocks pass through inner ranks; small n",
};

}  // namespace rondo::algo
