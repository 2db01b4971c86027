// Reduce-scatter, ring: the partial sum of rank b's block starts at b + 1, grows by one rank a hop and is complete at
// b. Cost: p - 1 hops, p - 1 blocks sent by each rank.
#include "algo/common.h"

namespace rondo::algo {
namespace {

Schedule generate(const Shape& shape, Rank me) {
  const uint32_t world = shape.world;
  if (world == 1) return copy_input(shape, me);
  const RingOrder ring(shape);
  const uint32_t at = ring.position(me);
  const uint32_t next = ring.rank(at, 1), previous = ring.before(at);
  const Ranks operands = pair(previous, me);
  Builder build(shape, me);
  for (uint32_t lane = 0; lane < shape.lanes; ++lane) {
    const auto chunk = [&](uint32_t behind) { return chunk_of(shape, ring.rank(at, world - behind), lane); };
    build.lane(lane).send(input(chunk(1)), next);
    for (uint32_t behind = 2; behind < world; ++behind)
      build.reduce_send({.operands = operands, .own = input(chunk(behind))}, Ranks{next});
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
    .cost = "p-1 hops, (p-1) blocks a rank; large n",
};

}  // namespace rondo::algo
