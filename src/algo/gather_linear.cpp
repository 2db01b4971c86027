// Gather, linear: everyone sends its block to the root.
// Cost: 1 hop, (p - 1)/p n bytes into the root (n: the whole output) in p - 1 messages.
#include "algo/common.h"

namespace rondo::algo {
namespace {

Schedule generate(const Shape& shape, Rank me) {
  Builder build(shape, me);
  for (uint32_t lane = 0; lane < shape.lanes; ++lane) {
    const uint32_t mine = chunk_of(shape, me, lane);
    build.lane(lane);
    if (me != shape.root) {
      build.send(input(mine), shape.root);
      continue;
    }
    build.copy(input(mine), output(mine));
    for (const uint32_t rank : others_after(shape.world, me)) build.recv(rank, output(chunk_of(shape, rank, lane)));
  }
  return std::move(build).finish();
}

}  // namespace

extern constinit const Algorithm gather_linear = {
    .collective = Collective::gather,
    .name = "linear",
    .generate = generate,
    .chunks = one_chunk_a_rank_and_lane,
    .order = SumOrder::none,
    .cost = "1 hop, (p-1)/p n bytes at the root",
};

}  // namespace rondo::algo
