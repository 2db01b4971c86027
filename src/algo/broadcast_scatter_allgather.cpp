// Broadcast, scatter and allgather (van de Geijn): the root sends a block to every rank, then the blocks go along the
// chain root, root + 1, ...: every rank passes on what its successor does not have yet. The root has everything and
// receives nothing.
// Cost: p hops, the root sends 2 (p - 1)/p n bytes, the others less; large n without multicast.
#include "algo/common.h"

namespace rondo::algo {
namespace {

Schedule generate(const Shape& shape, Rank me) {
  const uint32_t world = shape.world;
  const auto rank = [&](uint32_t place) { return (shape.root + place) % world; };
  const uint32_t at = (me + world - shape.root) % world;
  Builder build(shape, me);
  for (uint32_t lane = 0; lane < shape.lanes && world > 1; ++lane) {
    const auto chunk = [&](uint32_t block) { return chunk_of(shape, block % world, lane); };
    build.lane(lane);
    if (at == 0) {
      for (uint32_t place = 1; place < world; ++place) build.send(input(chunk(place)), rank(place));
      build.send(input(chunk(0)), rank(1));
      for (uint32_t block = world - 1; block >= 2; --block) build.send(input(chunk(block)), rank(1));
      continue;
    }
    const Ranks next = at + 1 < world ? Ranks{rank(at + 1)} : Ranks{};
    build.recv_send(shape.root, output(chunk(at)), next);
    for (uint32_t behind = 1; behind < world; ++behind) {
      // The last block is the next rank's own.
      const bool passes = behind + 1 < world;
      build.recv_send(rank(at - 1), output(chunk(at + world - behind)), passes ? next : Ranks{});
    }
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
