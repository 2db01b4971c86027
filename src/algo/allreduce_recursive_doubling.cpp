// Allreduce, recursive doubling. In round k every rank exchanges its whole partial sum with the rank whose number
// differs in bit k and adds; after lg p rounds all have the sum. Both of a pair add the same two operands in rank
// order, so that all ranks hold the same bits.
//
// Not a power of two: the first 2 (p - q) ranks fold in pairs (q = the largest power of two within p): the even one
// sends its input to the odd one, sits out, and gets the result.
//
// A partial sum that is being sent is not overwritten: sums go to two scratch chunks in turn, the last to the output.
// Cost: ceil(lg p) hops (2 more when folding), n bytes each; for small n.
#include "algo/common.h"

namespace rondo::algo {
namespace {

// The rounds of a rank that is not folded away. Each sum is sent on by the step that makes it.
void exchange(Builder& build, const Fold& fold, uint32_t chunk) {
  const Rank me = build.me();
  Ranks partners;  // in order of the sums: the folded neighbour first
  if (fold.absorbs()) partners.push_back(fold.partner());
  for (uint32_t bit = 1; bit < fold.power(); bit <<= 1) partners.push_back(fold.rank_of(fold.id() ^ bit));
  const uint32_t sums = static_cast<uint32_t>(partners.size());
  const At spare[2] = {build.new_scratch(chunk), build.new_scratch(chunk)};
  At current = input(chunk);
  if (!fold.absorbs()) build.send(current, partners[0]);
  for (uint32_t i = 0; i < sums; ++i) {
    const bool last = i + 1 == sums;
    Ranks to;
    if (!last) to.push_back(partners[i + 1]);
    if (last && fold.absorbs()) to.push_back(fold.partner());
    // With a single sum the input may still be on its way and be the output's memory: the sum waits aside.
    const At dst = last && sums > 1 ? output(chunk) : spare[i % 2];
    build.reduce_store_send({.operands = pair(me, partners[i]), .own = current, .final = last}, dst, to);
    current = dst;
  }
  if (!(current == output(chunk))) build.copy(current, output(chunk));
}

Schedule generate(const Shape& shape, Rank me) {
  if (shape.world == 1) return copy_input(shape, me);
  const Fold fold(shape.world, me);
  Builder build(shape, me);
  for (uint32_t lane = 0; lane < shape.lanes; ++lane) {
    build.lane(lane);
    if (fold.folded()) {
      build.send(input(lane), fold.partner()).recv(fold.partner(), output(lane));
    } else {
      exchange(build, fold, lane);
    }
  }
  return std::move(build).finish();
}

}  // namespace

extern constinit const Algorithm allreduce_recursive_doubling = {
    .collective = Collective::allreduce,
    .name = "recursive_doubling",
    .generate = generate,
    .chunks = one_chunk_a_lane,
    .order = SumOrder::own,
    .cost = "ceil(lg p) hops of n bytes, 2 more where p is no power of two; small n",
};

}  // namespace rondo::algo
