// Reduce over a ring: partial sums travel around as in the ring allreduce, and the rank that completes a chunk sends it
// to the root. A partial sum is never stored. Cost: p hops, 2 (p - 1)/p n bytes.
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
    const auto chunk_behind = [&](uint32_t hops) { return chunk_of(shape, (at + world - hops) % world, lane); };
    build.lane(lane).send(input(chunk_behind(0)), next);
    for (uint32_t hop = 1; hop + 1 < world; ++hop)
      build.reduce_send({.operands = operands, .own = input(chunk_behind(hop))}, Ranks{next});
    const uint32_t mine = chunk_behind(world - 1);
    if (me != shape.root) {
      build.reduce_send({.operands = operands, .own = input(mine), .final = true}, Ranks{shape.root});
      continue;
    }
    build.reduce_store({.operands = operands, .own = input(mine), .final = true}, output(mine));
    // Position i completes chunk i + 1.
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
    .cost = "p hops, 2(p-1)/p n bytes; large n",
};

}  // namespace rondo::algo
