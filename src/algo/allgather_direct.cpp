// Allgather, direct: every rank publishes its block once to all others.
// Cost: 1 hop, (p - 1)/p n bytes received by each rank in p - 1 messages.
#include "algo/common.h"

namespace rondo::algo {
namespace {

Schedule generate(const Shape& shape, Rank me) {
  const Ranks after = others_after(shape.world, me);
  Builder build(shape, me);
  for (uint32_t lane = 0; lane < shape.lanes; ++lane) {
    const uint32_t mine = chunk_of(shape, me, lane);
    build.lane(lane).copy_send(input(mine), output(mine), after);
    for (const uint32_t rank : others_before(shape.world, me)) build.recv(rank, output(chunk_of(shape, rank, lane)));
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
    .cost = "1 hop, (p-1)/p n bytes in p-1 messages; shared memory",
};

}  // namespace rondo::algo
