// Allgather, Bruck: in the round with distance d = 1, 2, 4, ... every rank gets from rank me + d the (up to d) blocks
// that rank has, and sends its own to rank me - d. Blocks are stored where they belong, and each is sent to all its
// later takers by the step that receives it. Any number of ranks. Cost: ceil(lg p) hops, p - 1 blocks sent by each
// rank. Bruck et al., "Efficient algorithms for all-to-all communications in multiport message-passing systems", 1997.
#include "algo/common.h"

namespace rondo::algo {
namespace {

Schedule generate(const Shape& shape, Rank me) {
  if (shape.world == 1) return copy_input(shape, me);
  const uint32_t world = shape.world;
  // The ranks to whom the block `offset` places ahead is sent once it is here: in the rounds with distance > offset.
  const auto takers = [&](uint32_t offset) {
    Ranks list;
    for (uint32_t distance = 1; distance < world; distance <<= 1)
      if (offset < std::min(distance, world - distance)) list.push_back((me + world - distance) % world);
    return list;
  };
  Builder build(shape, me);
  for (uint32_t lane = 0; lane < shape.lanes; ++lane) {
    const auto chunk = [&](uint32_t offset) { return chunk_of(shape, (me + offset) % world, lane); };
    build.lane(lane).send(input(chunk(0)), takers(0)).copy(input(chunk(0)), output(chunk(0)));
    for (uint32_t distance = 1; distance < world; distance <<= 1)
      for (uint32_t offset = distance; offset < std::min(2 * distance, world); ++offset)
        build.recv_send((me + distance) % world, output(chunk(offset)), takers(offset));
  }
  return std::move(build).finish();
}

}  // namespace

extern constinit const Algorithm allgather_bruck = {
    .collective = Collective::allgather,
    .name = "bruck",
    .generate = generate,
    .chunks = one_chunk_a_rank_and_lane,
    .order = SumOrder::none,
    .cost = "ceil(lg p) hops, (p-1) blocks a rank; small n",
};

}  // namespace rondo::algo
