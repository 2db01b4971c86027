// Allreduce, owner sums. Rank c owns chunk c: everyone sends it their input of that chunk, it adds all of them at once
// in rank order, keeps the result and publishes it once to all others.
//
//   rank r:  send chunk r+1 to r+1, ... | own chunk: sum over 0..p-1, keep, -> all others | keep chunk of r-1, r-2, ...
//
// Every element is summed once, by one rank, by the canonical tree over rank order, so the bits do not depend on
// chunks, lanes or timing. Lanes divide the chunks further. Cost: 2 hops, 2 (p - 1) messages of n/p, 2 (p - 1)/p n
// bytes sent and received by each rank.
#include "algo/common.h"

namespace rondo::algo {
namespace {

Schedule generate(const Shape& shape, Rank me) {
  if (shape.world == 1) return copy_input(shape, me);
  const Ranks all = all_ranks(shape.world), after = others_after(shape.world, me);
  Builder build(shape, me);
  for (uint32_t lane = 0; lane < shape.lanes; ++lane) {
    build.lane(lane);
    for (const uint32_t owner : after) build.send(input(chunk_of(shape, owner, lane)), owner);
    const uint32_t mine = chunk_of(shape, me, lane);
    build.reduce_store_send({.operands = all, .own = input(mine), .final = true}, output(mine), after);
    for (const uint32_t owner : others_before(shape.world, me)) build.recv(owner, output(chunk_of(shape, owner, lane)));
  }
  return std::move(build).finish();
}

}  // namespace

extern constinit const Algorithm allreduce_direct = {
    .collective = Collective::allreduce,
    .name = "direct",
    .generate = generate,
    .chunks = one_chunk_a_rank_and_lane,
    .order = SumOrder::canonical,
    .cost = "2 hops, 2(p-1)/p n bytes in 2(p-1) messages; shared memory or full bisection",
};

}  // namespace rondo::algo
