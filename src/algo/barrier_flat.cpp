// Barrier, flat: everyone tells rank 0, which tells everyone once it has heard from all. Only the first lane has steps.
// Cost: 2 hops, 2 (p - 1) messages at rank 0.
#include "algo/common.h"

namespace rondo::algo {
namespace {

Schedule generate(const Shape& shape, Rank me) {
  const uint32_t world = shape.world;
  Builder build(shape, me);
  if (me != 0) {
    build.send(input(0), 0).drop(0, input(0));
  } else {
    const Ranks others = others_after(world, 0);
    for (uint32_t rank = 1; rank < world; ++rank) build.forward(rank, input(0), rank + 1 < world ? Ranks{} : others);
  }
  return std::move(build).finish();
}

}  // namespace

extern constinit const Algorithm barrier_flat = {
    .collective = Collective::barrier,
    .name = "flat",
    .generate = generate,
    .chunks = one_chunk_a_lane,
    .order = SumOrder::none,
    .cost = "2 hops, 2(p-1) messages at rank 0; shared memory",
};

}  // namespace rondo::algo
