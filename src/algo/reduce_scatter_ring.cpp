// Reduce-scatter over a ring: the partial sum of a block starts one place after its owner, grows by one rank a hop and
// ends at the owner. A partial sum is never stored. Cost: p - 1 hops, (p - 1)/p n bytes sent and received by each rank
// (n: the whole input).
#include "algo/common.h"

namespace rondo::algo {
namespace {

Schedule generate(const Shape& shape, Rank me) {
  if (shape.world == 1) return copy_input(shape, me);
  const uint32_t world = shape.world;
  const RingOrder ring(shape);
  const uint32_t at = ring.position(me);
  const uint32_t next = ring.rank(at, 1), previous = ring.before(at);
  const Ranks operands = pair(previous, me);
  Builder build(shape, me);
  for (uint32_t lane = 0; lane < shape.lanes; ++lane) {
    const auto chunk_behind = [&](uint32_t hops) { return chunk_of(shape, ring.rank(at, world - hops), lane); };
    build.lane(lane).send(input(chunk_behind(1)), next);
    for (uint32_t hop = 2; hop < world; ++hop)
      build.reduce_send({.operands = operands, .own = input(chunk_behind(hop))}, Ranks{next});
    const uint32_t mine = chunk_of(shape, me, lane);
    build.reduce_store({.operands = operands, .own = input(mine), .final = true}, output(mine));
  }
  return std::move(build).finish();
}

}  // namespace

extern constinit const Algorithm reduce_scatter_ring = {
    .collective = Collective::reduce_scatter,
    .name = "ring",
    .generate = generate,
    .chunks = one_chunk_a_rank_and_lane,
    .order = SumOrder::own,
    .cost = "p-1 hops, (p-1)/p n bytes; large n",
};

}  // namespace rondo::algo
