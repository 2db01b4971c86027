// Allreduce, recursive doubling. In round k partners at distance 2^k exchange their sums and both add.
//
//   0 <-> 1   2 <-> 3        then        0 <-> 2   1 <-> 3        (4 ranks)
//
// When the world is no power of two, every odd rank among the first 2 (p - 2^floor(lg p)) first gives its input to its
// left neighbour and gets the result at the end (the fold). Both partners add the lower ranks' sum first, so all ranks
// build the same tree. A sum that is being sent must stay while the next is written, so sums alternate between two
// scratch chunks and only the last one goes to the output, which may be the input. Cost: lg p hops (2 more when
// folded), lg p n bytes. Thakur, Rabenseifner and Gropp, "Optimization of collective communication operations in
// MPICH", 2005.
#include "algo/common.h"

namespace rondo::algo {
namespace {

// The program of a rank that stays when the others have folded, for chunk `chunk`.
void survive(Builder& build, const Fold& fold, uint32_t chunk) {
  Ranks partners;  // whose sums are added, in this order
  if (fold.has_twin()) partners.push_back(fold.twin());
  for (uint32_t distance = 1; distance < fold.survivors(); distance *= 2) partners.push_back(fold.partner(distance));
  At spare[2] = {};
  for (size_t i = 0; i < std::min<size_t>(2, partners.size() - 1); ++i) spare[i] = build.new_scratch(chunk);
  At sum = input(chunk);
  if (!fold.has_twin()) {
    // In a world of two, both would write the output last and, in place, wait for the other to have read it.
    if (build.world() == 2 && build.me() == 0) {
      build.copy_send(input(chunk), build.new_scratch(chunk), Ranks{partners[0]});
    } else {
      build.send(sum, partners[0]);
    }
  }
  for (size_t round = 0; round < partners.size(); ++round) {
    const bool last = round + 1 == partners.size();
    const Ranks operands = pair(build.me(), partners[round]);
    const At next = last ? output(chunk) : spare[round % 2];
    Ranks to;
    if (!last) to = {partners[round + 1]};
    if (last && fold.has_twin()) to = {fold.twin()};
    build.reduce_store_send({.operands = operands, .own = sum, .final = last}, next, to);
    sum = next;
  }
}

Schedule generate(const Shape& shape, Rank me) {
  if (shape.world == 1) return copy_input(shape, me);
  const Fold fold(shape.world, me);
  Builder build(shape, me);
  for (uint32_t lane = 0; lane < shape.lanes; ++lane) {
    build.lane(lane);
    if (fold.folded_away()) {
      build.send(input(lane), fold.twin()).recv(fold.twin(), output(lane));
    } else {
      survive(build, fold, lane);
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
    .cost = "lg p hops, lg p n bytes; small n",
};

}  // namespace rondo::algo
