// Alltoall, pairwise: in round k a rank sends to the one k places after it and receives from the one k places before
// it, so that every rank is the target of one sender a round. Every block goes straight to where it belongs, so blocks
// may have any sizes. Cost: p - 1 rounds, (p - 1)/p n bytes.
#include "algo/common.h"

namespace rondo::algo {
namespace {

Schedule generate(const Shape& shape, Rank me) {
  const uint32_t world = shape.world;
  Builder build(shape, me);
  for (uint32_t lane = 0; lane < shape.lanes; ++lane) {
    build.lane(lane);
    if (world > 1) build.send(input(chunk_of(shape, (me + 1) % world, lane)), (me + 1) % world);
    build.copy(input(chunk_of(shape, me, lane)), output(chunk_of(shape, me, lane)));
    for (uint32_t round = 1; round < world; ++round) {
      const uint32_t to = (me + round) % world, from = (me + world - round) % world;
      if (round > 1) build.send(input(chunk_of(shape, to, lane)), to);
      build.recv(from, output(chunk_of(shape, from, lane)));
    }
  }
  return std::move(build).finish();
}

}  // namespace

extern constinit const Algorithm alltoall_pairwise = {
    .collective = Collective::alltoall,
    .name = "pairwise",
    .generate = generate,
    .chunks = one_chunk_a_rank_and_lane,
    .order = SumOrder::none,
    .cost = "p-1 rounds, (p-1)/p n bytes",
};

}  // namespace rondo::algo
