// Allgather, ring: everyone passes on the block that it got last. Cost: p - 1 hops, (p - 1) blocks sent by each rank.
#include "algo/common.h"

namespace rondo::algo {
namespace {

Schedule generate(const Shape& shape, Rank me) {
  const uint32_t world = shape.world;
  if (world == 1) return copy_input(shape, me);
  const RingOrder ring(shape);
  const uint32_t at = ring.position(me);
  const uint32_t previous = ring.before(at);
  const Ranks next{ring.rank(at, 1)};
  Builder build(shape, me);
  for (uint32_t lane = 0; lane < shape.lanes; ++lane) {
    const auto chunk = [&](uint32_t behind) { return chunk_of(shape, ring.rank(at, world - behind), lane); };
    build.lane(lane).send(input(chunk(0)), next).copy(input(chunk(0)), output(chunk(0)));
    for (uint32_t behind = 1; behind < world; ++behind)
      build.recv_send(previous, output(chunk(behind)), behind + 1 < world ? next : Ranks{});
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
    .cost = "p-1 hops, (p-1) blocks a rank; large n",
};

}  // namespace rondo::algo
