// Allgather over a ring: every rank sends its block to the next one and then passes on what it gets.
// Cost: p - 1 hops, (p - 1)/p n bytes sent and received by each rank (n: the whole output).
#include "algo/common.h"

namespace rondo::algo {
namespace {

Schedule generate(const Shape& shape, Rank me) {
  if (shape.world == 1) return copy_input(shape, me);
  const uint32_t world = shape.world;
  const RingOrder ring(shape);
  const uint32_t at = ring.position(me);
  const uint32_t next = ring.rank(at, 1), previous = ring.before(at);
  Builder build(shape, me);
  for (uint32_t lane = 0; lane < shape.lanes; ++lane) {
    const auto chunk_behind = [&](uint32_t hops) { return chunk_of(shape, ring.rank(at, world - hops), lane); };
    build.lane(lane).copy_send(input(chunk_behind(0)), output(chunk_behind(0)), Ranks{next});
    for (uint32_t hop = 1; hop + 1 < world; ++hop) build.recv_send(previous, output(chunk_behind(hop)), Ranks{next});
    build.recv(previous, output(chunk_behind(world - 1)));
  }
  return std::move(build).finish();
}

}  // namespace

extern constinit const Algorithm allgather_ring = {
    .collective = Collective::allgather,
    .name = "ring",
    .generate = generate,
    .chunks = one_chunk_a_rank_and_lane,
    .order = SumOrder::none,
    .cost = "p-1 hops, (p-1)/p n bytes; large n",
};

}  // namespace rondo::algo
