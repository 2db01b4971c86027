// Barrier, dissemination. In round k a rank tells the one 2^k places after it and hears from the one 2^k places before
// it; after ceil(lg p) rounds it has heard of everyone. Hearing and telling on is one step. Only the first lane has
// steps. Cost: ceil(lg p) hops, no bytes. Hensgen, Finkel and Manber, "Two algorithms for barrier synchronization",
// 1988.
#include "algo/common.h"

namespace rondo::algo {
namespace {

Schedule generate(const Shape& shape, Rank me) {
  const uint32_t world = shape.world;
  Builder build(shape, me);
  if (world > 1) build.send(input(0), (me + 1) % world);
  for (uint32_t distance = 1; distance < world; distance *= 2) {
    Ranks next;
    if (distance * 2 < world) next.push_back((me + distance * 2) % world);
    build.forward((me + world - distance) % world, input(0), next);
  }
  return std::move(build).finish();
}

}  // namespace

extern constinit const Algorithm barrier_dissemination = {
    .collective = Collective::barrier,
    .name = "dissemination",
    .generate = generate,
    .chunks = one_chunk_a_lane,
    .order = SumOrder::none,
    .cost = "ceil(lg p) hops",
};

}  // namespace rondo::algo
