// Alltoall, pairwise: in round k every rank sends to me + k and receives from me - k, so that no one is everyone's
// target. Cost: p - 1 rounds of one block each way.
#include "algo/common.h"

namespace rondo::algo {
namespace {

Schedule generate(const Shape& shape, Rank me) {
  const uint32_t world = shape.world;
  Builder build(shape, me);
  for (uint32_t lane = 0; lane < shape.lanes; ++lane) {
    build.lane(lane).copy(input(chunk_of(shape, me, lane)), output(chunk_of(shape, me, lane)));
    for (uint32_t ahead = 1; ahead < world; ++ahead) {
      const uint32_t to = (me + ahead) % world, from = (me + world - ahead) % world;
      build.send(input(chunk_of(shape, to, lane)), to).recv(from, output(chunk_of(shape, from, lane)));
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
    .cost = "p-1 rounds, (p-1) blocks a rank",
};

}  // namespace rondo::algo
