// Broadcast along a binomial tree, the largest subtree first. Cost: ceil(lg p) hops of n bytes.
#include "algo/common.h"

namespace rondo::algo {
namespace {

Schedule generate(const Shape& shape, Rank me) {
  const Binomial tree(shape);
  Ranks children = tree.children(me);
  std::reverse(children.begin(), children.end());
  Builder build(shape, me);
  for (uint32_t lane = 0; lane < shape.lanes; ++lane) {
    build.lane(lane);
    if (me == shape.root) {
      build.send(input(lane), children);
    } else {
      build.recv_send(tree.parent(me), output(lane), children);
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
    .cost = "ceil(lg p) hops of n bytes; small n",
};

}  // namespace rondo::algo
