// Allreduce, recursive halving then doubling. In the halving rounds partners at distance p/2, p/4 .. 1 exchange halves
// of what they still hold and each adds up its own half; in the doubling rounds they hand the finished parts back.
//
//   rank 0 of 4:   -> 2: chunks 2 3, adds 0 1   |  -> 1: chunk 1, adds 0   |  <-> 1: gets 1   |  <-> 2: gets 2 3
//
// When the world is no power of two, odd ranks among the first ones fold into their left neighbour as in recursive
// doubling, chunk by chunk: the neighbour adds their input in its first round, as one more operand, and passes on each
// finished chunk as it gets it. Sends and receptions of a round alternate, so that a stream that holds one message is
// enough. Partial sums stay in the output: a chunk that is kept is not being sent.
// Cost: 2 lg p hops (2 more when folded), 2 (p - 1)/p n bytes (n more for a folded pair).
// Rabenseifner, "Optimization of collective reduction operations", 2004.
#include "algo/common.h"

namespace rondo::algo {
namespace {

constexpr uint32_t chunks_of(uint32_t world, uint32_t lanes) {
  return world == 1 ? lanes : std::bit_floor(world) * lanes;
}

// The order in which position `at` handles parts in its first halving round: one to send, one to keep, and so on.
Ranks first_round(const Fold& fold, uint32_t at) {
  const uint32_t half = fold.survivors() / 2, kept = at & half;
  Ranks parts;
  for (uint32_t k = 0; k < half; ++k) {
    parts.push_back((kept ^ half) + k);
    parts.push_back(kept + k);
  }
  return parts;
}

// The order in which position `at` gets finished parts: its own, then by growing distance.
Ranks finished_order(const Fold& fold, uint32_t at) {
  Ranks parts = {at};
  for (uint32_t distance = 1; distance < fold.survivors(); distance *= 2)
    for (uint32_t k = 0; k < distance; ++k) parts.push_back((((at / distance) ^ 1) * distance) + k);
  return parts;
}

void fold_away(Builder& build, const Fold& fold, uint32_t lane) {
  for (const uint32_t part : first_round(fold, fold.position()))
    build.send(input(chunk_of(build.shape(), part, lane)), fold.twin());
  for (const uint32_t part : finished_order(fold, fold.position()))
    build.recv(fold.twin(), output(chunk_of(build.shape(), part, lane)));
}

void halve(Builder& build, const Fold& fold, uint32_t lane) {
  const uint32_t at = fold.position(), half = fold.survivors() / 2;
  for (uint32_t distance = half; distance >= 1; distance /= 2) {
    const bool first = distance == half, last = distance == 1;
    const uint32_t partner = fold.partner(distance), kept = at / distance * distance;
    Ranks operands = pair(build.me(), partner);
    if (first && fold.has_twin()) operands.push_back(fold.twin());
    std::sort(operands.begin(), operands.end());
    for (uint32_t k = 0; k < distance; ++k) {
      const uint32_t given = chunk_of(build.shape(), (kept ^ distance) + k, lane);
      const uint32_t mine = chunk_of(build.shape(), kept + k, lane);
      if (first && fold.has_twin()) {
        build.reduce_send({.operands = pair(build.me(), fold.twin()), .own = input(given)}, Ranks{partner});
      } else {
        build.send(first ? input(given) : output(given), partner);
      }
      Ranks to;
      if (last) to.push_back(fold.partner(1));
      if (last && fold.has_twin()) to.push_back(fold.twin());
      build.reduce_store_send({.operands = operands, .own = first ? input(mine) : output(mine), .final = last},
                              output(mine), to);
    }
  }
}

// The finished own part has been sent to the first partner (and the twin) by the last halving round.
void double_up(Builder& build, const Fold& fold, uint32_t lane) {
  const uint32_t at = fold.position();
  Ranks twin;
  if (fold.has_twin()) twin.push_back(fold.twin());
  for (uint32_t distance = 1; distance < fold.survivors(); distance *= 2) {
    const uint32_t partner = fold.partner(distance), mine = at / distance * distance;
    for (uint32_t k = 0; k < distance; ++k) {
      if (distance > 1) build.send(output(chunk_of(build.shape(), mine + k, lane)), partner);
      build.recv_send(partner, output(chunk_of(build.shape(), (mine ^ distance) + k, lane)), twin);
    }
  }
}

Schedule generate(const Shape& shape, Rank me) {
  if (shape.world == 1) return copy_input(shape, me);
  const Fold fold(shape.world, me);
  Builder build(shape, me);
  for (uint32_t lane = 0; lane < shape.lanes; ++lane) {
    build.lane(lane);
    if (fold.folded_away()) {
      fold_away(build, fold, lane);
    } else {
      halve(build, fold, lane);
      double_up(build, fold, lane);
    }
  }
  return std::move(build).finish();
}

}  // namespace

extern constinit const Algorithm allreduce_halving_doubling = {
    .collective = Collective::allreduce,
    .name = "halving_doubling",
    .generate = generate,
    .chunks = chunks_of,
    .order = SumOrder::own,
    .cost = "2 lg p hops, 2(p-1)/p n bytes; middle n",
};

}  // namespace rondo::algo
