// Reduce, ring: the reduce-scatter half of the ring allreduce, then every rank sends the chunk that it has completed to
// the root. Partial sums are never stored.
// Cost: p hops, n bytes sent by each rank, 2 (p - 1)/p n received by the root.
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
    const auto chunk_behind = [&](uint32_t hops) { return chunk_of(shape, (at + 2 * world - hops) % world, lane); };
    build.lane(lane).send(input(chunk_behind(0)), next);
    for (uint32_t hop = 1; hop + 1 < world; ++hop)
      build.reduce_send({.operands = operands, .own = input(chunk_behind(hop))}, Ranks{next});
    const uint32_t mine = chunk_behind(world - 1);
    const Builder::Reduce last{.operands = operands, .own = input(mine), .final = true};
    if (me != shape.root) {
      build.reduce_send(last, Ranks{shape.root});
      continue;
    }
    build.reduce_store(last, output(mine));
    for (uint32_t ahead = 1; ahead < world; ++ahead)
      build.recv(ring.rank(at, ahead), output(chunk_of(shape, (at + ahead + 1) % world, lane)));
  }
  return std::move(build).finish();
}

}  // namespace

extern constinit const Algorithm reduce_ring = {
    .collective = Collective::reduce,
    .name = "ring",
    .generate = generate,
    .chunks = one_chunk_a_rank_and_lane,
    .order = SumOrder::own,
    .cost = "p hops, n bytes a rank; large n",
};

}  // namespace rondo::algo
