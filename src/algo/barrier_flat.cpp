// Barrier, flat: everyone tells everyone. Cost: 1 hop, p - 1 empty messages a rank; shared memory.
#include "algo/common.h"

namespace rondo::algo {
namespace {

Schedule generate(const Shape& shape, Rank me) {
  Builder build(shape, me);
  build.send(input(0), others_after(shape.world, me));
  for (const uint32_t other : others_before(shape.world, me)) build.drop(other, input(0));
  return std::move(build).finish();
}

}  // namespace

extern constinit const Algorithm barrier_flat = {
    .collective = Collective::barrier,
    .name = "flat",
    .generate = generate,
    .chunks = one_chunk_a_lane,
    .order = SumOrder::none,
    .cost = "1 hop, p-1 empty messages a rank; shared memory",
};

}  // namespace rondo::algo
