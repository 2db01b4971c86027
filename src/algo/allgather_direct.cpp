// Allgather, direct: everyone publishes its block once for all others. Cost: 1 hop, p - 1 blocks received by each rank.
#include "algo/common.h"

namespace rondo::algo {
namespace {

Schedule generate(const Shape& shape, Rank me) {
  if (shape.world == 1) return copy_input(shape, me);
  Builder build(shape, me);
  for (uint32_t lane = 0; lane < shape.lanes; ++lane) {
    const uint32_t mine = chunk_of(shape, me, lane);
    build.lane(lane).send(input(mine), others_after(shape.world, me)).copy(input(mine), output(mine));
    for (const uint32_t other : others_before(shape.world, me)) build.recv(other, output(chunk_of(shape, other, lane)));
  }
  return std::move(build).finish();
}

}  // namespace

extern constinit const Algorithm allgather_direct = {
    .collective = Collective::allgather,
    .name = "direct",
    .generate = generate,
    .chunks = one_chunk_a_rank_and_lane,
    .order = SumOrder::none,
    .cost = "1 hop, one publication a rank; shared memory",
};

}  // namespace rondo::algo
