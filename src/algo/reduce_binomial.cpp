// Reduce along a binomial tree: every rank adds its children's sums to its own input, all at once in rank order, and
// sends the result to its parent without storing it.
// Cost: ceil(lg p) hops of n bytes; the root takes in n lg p bytes.
#include "algo/common.h"

namespace rondo::algo {
namespace {

Schedule generate(const Shape& shape, Rank me) {
  if (shape.world == 1) return copy_input(shape, me);
  const Binomial tree(shape);
  const Ranks children = tree.children(me);
  Ranks operands = children;
  operands.push_back(me);
  std::sort(operands.begin(), operands.end());
  Builder build(shape, me);
  for (uint32_t lane = 0; lane < shape.lanes; ++lane) {
    build.lane(lane);
    if (me == shape.root) {
      build.reduce_store({.operands = operands, .own = input(lane), .final = true}, output(lane));
    } else if (children.empty()) {
      build.send(input(lane), tree.parent(me));
    } else {
      build.reduce_send({.operands = operands, .own = input(lane)}, Ranks{tree.parent(me)});
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
    .cost = "ceil(lg p) hops of n bytes; small n",
};

}  // namespace rondo::algo
