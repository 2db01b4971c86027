// Reduce-scatter, owner sums: everyone sends each block to its owner, which adds all of them at once in rank order.
// Cost: 1 hop, (p - 1)/p n bytes in p - 1 messages. Every element is summed once by the canonical tree over rank order.
#include "algo/common.h"

namespace rondo::algo {
namespace {

Schedule generate(const Shape& shape, Rank me) {
  if (shape.world == 1) return copy_input(shape, me);
  const Ranks all = all_ranks(shape.world);
  Builder build(shape, me);
  for (uint32_t lane = 0; lane < shape.lanes; ++lane) {
    build.lane(lane);
    for (const uint32_t owner : others_after(shape.world, me)) build.send(input(chunk_of(shape, owner, lane)), owner);
    const uint32_t mine = chunk_of(shape, me, lane);
    build.reduce_store({.operands = all, .own = input(mine), .final = true}, output(mine));
  }
  return std::move(build).finish();
}

}  // namespace

extern constinit const Algorithm reduce_scatter_direct = {
    .collective = Collective::reduce_scatter,
    .name = "direct",
    .generate = generate,
    .chunks = one_chunk_a_rank_and_lane,
    .order = SumOrder::canonical,
    .cost = "1 hop, (p-1)/p n bytes in p-1 messages; shared memory or full bisection",
};

}  // namespace rondo::algo
