// Scatter, linear: the root sends each rank its block.
// Cost: 1 hop, (p - 1)/p n bytes from the root (n: the whole input) in p - 1 messages.
#include "algo/common.h"

namespace rondo::algo {
namespace {

Schedule generate(const Shape& shape, Rank me) {
  Builder build(shape, me);
  for (uint32_t lane = 0; lane < shape.lanes; ++lane) {
    const uint32_t mine = chunk_of(shape, me, lane);
    build.lane(lane);
    if (me != shape.root) {
      build.recv(shape.root, output(mine));
      continue;
    }
    for (const uint32_t rank : others_after(shape.world, me)) build.send(input(chunk_of(shape, rank, lane)), rank);
    build.copy(input(mine), output(mine));
  }
  return std::move(build).finish();
}

}  // namespace

extern constinit const Algorithm scatter_linear = {
    .collective = Collective::scatter,
    .name = "linear",
    .generate = generate,
    .chunks = one_chunk_a_rank_and_lane,
    .order = SumOrder::none,
    .cost = "1 hop, (p-1)/p n bytes at the root",
};

}  // namespace rondo::algo
