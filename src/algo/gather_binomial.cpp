// Gather along a binomial tree: every rank sends its block to its parent, then passes on its children's subtrees block
// by block, without storing them. Cost: ceil(lg p) hops; a block travels as many hops as its rank is deep.
#include "algo/common.h"

namespace rondo::algo {
namespace {

Schedule generate(const Shape& shape, Rank me) {
  const Binomial tree(shape);
  Builder build(shape, me);
  for (uint32_t lane = 0; lane < shape.lanes; ++lane) {
    const uint32_t mine = chunk_of(shape, me, lane);
    build.lane(lane);
    if (me == shape.root) {
      build.copy(input(mine), output(mine));
    } else {
      build.send(input(mine), tree.parent(me));
    }
    for (const uint32_t child : tree.children(me)) {
      for (const uint32_t block : tree.subtree(child)) {
        if (me == shape.root) {
          build.recv(child, output(chunk_of(shape, block, lane)));
        } else {
          build.forward(child, input(chunk_of(shape, block, lane)), Ranks{tree.parent(me)});
        }
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
    .cost = "ceil(lg p) hops, blocks pass through inner ranks; small n",
};

}  // namespace rondo::algo
