// Broadcast, scatter then ring allgather. The root is place 0 of the ring; it sends part i to place i, and then the
// parts go around. Nothing comes back to the root, and nobody gets its own part twice.
//
//   place 1 of 4:   part 1 from 0, keep, -> 2 | part 0 from 0, keep, -> 2 | part 3 the same | part 2, keep
//
// Cost: p hops, 2 (p - 1)/p n bytes from the root, (p - 1)/p n from the others.
// Barnett, Shuler, van de Geijn et al., "Interprocessor collective communication library (InterCom)", 1994.
#include "algo/common.h"

namespace rondo::algo {
namespace {

Schedule generate(const Shape& shape, Rank me) {
  if (shape.world == 1) return copy_input(shape, me);
  const uint32_t world = shape.world;
  const RingOrder ring(shape);
  const uint32_t start = ring.position(shape.root), place = (ring.position(me) + world - start) % world;
  const uint32_t next = ring.rank(start + place, 1);
  Builder build(shape, me);
  for (uint32_t lane = 0; lane < shape.lanes; ++lane) {
    const auto part = [&](uint32_t index) { return chunk_of(shape, index % world, lane); };
    build.lane(lane);
    if (place == 0) {
      for (uint32_t i = 1; i < world; ++i) build.copy_send(input(part(i)), output(part(i)), Ranks{ring.rank(start, i)});
      build.copy_send(input(part(0)), output(part(0)), Ranks{next});
      for (uint32_t i = world - 1; i > 1; --i) build.send(output(part(i)), next);
      continue;
    }
    Ranks onward;
    if (place + 1 < world) onward.push_back(next);
    build.recv_send(shape.root, output(part(place)), onward);
    for (uint32_t hop = 1; hop < world; ++hop)
      build.recv_send(ring.rank(start, place - 1), output(part(place + world - hop)),
                      hop + 1 < world ? onward : Ranks{});
  }
  return std::move(build).finish();
}

}  // namespace

extern constinit const Algorithm broadcast_scatter_allgather = {
    .collective = Collective::broadcast,
    .name = "scatter_allgather",
    .generate = generate,
    .chunks = one_chunk_a_rank_and_lane,
    .order = SumOrder::none,
    .cost = "p hops, 2(p-1)/p n bytes; large n",
};

}  // namespace rondo::algo
