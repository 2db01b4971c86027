// Barrier, dissemination: in the round with distance d = 1, 2, 4, ... every rank tells rank me + d and waits for rank
// me - d; after ceil(lg p) rounds everyone has heard, directly or not, of everyone.
// Hensgen, Finkel and Manber, "Two algorithms for barrier synchronization", 1988.
#include "algo/common.h"

namespace rondo::algo {
namespace {

Schedule generate(const Shape& shape, Rank me) {
  const uint32_t world = shape.world;
  Builder build(shape, me);
  for (uint32_t distance = 1; distance < world; distance <<= 1)
    build.send(input(0), (me + distance) % world).drop((me + world - distance) % world, input(0));
  return std::move(build).finish();
}

}  // namespace

extern constinit const Algorithm barrier_dissemination = {
    .collective = Collective::barrier,
    .name = "dissemination",
    .generate = generate,
    .chunks = one_chunk_a_lane,
    .order = SumOrder::none,
    .cost = "ceil(lg p) hops of empty messages",
};

}  // namespace rondo::algo
