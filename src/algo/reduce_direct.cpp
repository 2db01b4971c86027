// Reduce, all to the root. Everyone sends its input to the root, which adds all of them at once in rank order.
// Cost: 1 hop, (p - 1) n bytes into the root. Every element is summed once by the canonical tree over rank order.
#include "algo/common.h"

namespace rondo::algo {
namespace {

Schedule generate(const Shape& shape, Rank me) {
  if (shape.world == 1) return copy_input(shape, me);
  const Ranks all = all_ranks(shape.world);
  Builder build(shape, me);
  for (uint32_t lane = 0; lane < shape.lanes; ++lane) {
    build.lane(lane);
    if (me == shape.root) {
      build.reduce_store({.operands = all, .own = input(lane), .final = true}, output(lane));
    } else {
      build.send(input(lane), shape.root);
    }
  }
  return std::move(build).finish();
}

}  // namespace

extern constinit const Algorithm reduce_direct = {
    .collective = Collective::reduce,
    .name = "direct",
    .generate = generate,
    .chunks = one_chunk_a_lane,
    .order = SumOrder::canonical,
    .cost = "1 hop, (p-1) n bytes at the root; shared memory, canonical order",
};

}  // namespace rondo::algo
