// Allgather, Bruck. In round k a rank has the 2^k blocks from its own on and gives them to the rank 2^k before it,
// which then has twice as many; the last round gives only what is missing. The own block is the first of every round,
// so it is published once, to the receivers of all rounds. Sends and receptions alternate, so that a stream that holds
// one message is enough. Blocks go to where they belong at once: there is no rotation at the end.
//
//   rank 0 of 5:   has 0 | gets 1 from 1 | gets 2 3 from 2 | gets 4 from 4
//
// Cost: ceil(lg p) hops, (p - 1)/p n bytes sent and received by each rank.
// Bruck, Ho, Kipnis, Upfal and Weathersby, "Efficient algorithms for all-to-all communications", 1997.
#include "algo/common.h"

namespace rondo::algo {
namespace {

Schedule generate(const Shape& shape, Rank me) {
  const uint32_t world = shape.world;
  Ranks receivers;
  for (uint32_t distance = 1; distance < world; distance *= 2) receivers.push_back((me + world - distance) % world);
  Builder build(shape, me);
  for (uint32_t lane = 0; lane < shape.lanes; ++lane) {
    const auto chunk_ahead = [&](uint32_t blocks) { return chunk_of(shape, (me + blocks) % world, lane); };
    build.lane(lane).copy_send(input(chunk_ahead(0)), output(chunk_ahead(0)), receivers);
    for (uint32_t distance = 1; distance < world; distance *= 2)
      for (uint32_t k = 0; k < std::min(distance, world - distance); ++k) {
        if (k > 0) build.send(output(chunk_ahead(k)), (me + world - distance) % world);
        build.recv((me + distance) % world, output(chunk_ahead(distance + k)));
      }
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
    .cost = "ceil(lg p) hops, (p-1)/p n bytes; small n",
};

}  // namespace rondo::algo
