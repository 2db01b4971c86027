// Allreduce, segmented ring. Position i of the ring sends to i + 1; a partial sum of chunk c starts at position c,
// grows by one rank a hop and is complete at position c - 1, which sends the result once around.
//
//   position 0:  send 0 | +3 -> | +2 -> | +1 = sum, keep, -> | 0 keep, -> | 3 keep, -> | 2 keep      (4 ranks)
//
// A partial sum is never stored: it goes from the message through the reduction into the next message. Every element is
// read once and written once on each rank. Lanes are rings of their own over their own chunks.
// Cost: 2 (p - 1) hops, 2 (p - 1)/p n bytes sent and received by each rank.
// Patarasuk and Yuan, "Bandwidth optimal all-reduce algorithms for clusters of workstations", 2009.
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
    build.reduce_store_send({.operands = operands, .own = input(mine), .final = true}, output(mine), Ranks{next});
    for (uint32_t hop = 0; hop + 2 < world; ++hop) build.recv_send(previous, output(chunk_behind(hop)), Ranks{next});
    build.recv(previous, output(chunk_behind(world - 2)));
  }
  return std::move(build).finish();
}

}  // namespace

extern constinit const Algorithm allreduce_ring = {
    .collective = Collective::allreduce,
    .name = "ring",
    .generate = generate,
    .chunks = one_chunk_a_rank_and_lane,
    .order = SumOrder::own,
    .cost = "2(p-1) hops, 2(p-1)/p n bytes; large n, any p",
};

}  // namespace rondo::algo
