// Allreduce, recursive halving and doubling (Rabenseifner). Reduce-scatter: in round k every rank sends the half of its
// range that its partner keeps and adds what it gets for its own half; the partner's number differs in the k-th highest
// bit. Then each rank has the sum of one block, and the blocks are gathered along the same pairs backwards.
//
//   4 ranks, rank 0:  send 2 3 to 2, add 0 1 | send 1 to 1, add 0 = sum | 0 to 1 and 2, get 1 | 1 to 2, get 2 3
//
// A partial sum that is sent on is never stored; a gathered block is sent to all later partners at once. Not a power of
// two: the first 2 (p - q) ranks fold in pairs as in recursive doubling.
// Cost: 2 lg p hops, 2 (p - 1)/p n bytes (n more when folding).
// Rabenseifner, "Optimization of collective reduction operations", 2004.
#include "algo/common.h"

namespace rondo::algo {
namespace {

constexpr uint32_t one_chunk_a_power_and_lane(uint32_t world, uint32_t lanes) { return std::bit_floor(world) * lanes; }

// The blocks that rank `id` has when round `bit` of the gathering begins (all rounds with lower bits are over), in the
// order in which it got them.
Ranks gathered(uint32_t id, uint32_t from_bit, uint32_t power) {
  Ranks blocks{id};
  for (uint32_t bit = 1; bit < power && (from_bit == 0 || bit < from_bit); bit <<= 1)
    for (const uint32_t block : gathered(id ^ bit, bit, power)) blocks.push_back(block);
  return blocks;
}

// The partners to whom a block is sent that this rank has before round `bit` of the gathering.
Ranks later_partners(const Fold& fold, uint32_t bit) {
  Ranks list;
  for (; bit < fold.power(); bit <<= 1) list.push_back(fold.rank_of(fold.id() ^ bit));
  if (fold.absorbs()) list.push_back(fold.partner());
  return list;
}

void scatter_sums(Builder& build, const Fold& fold, uint32_t lane) {
  const Rank me = build.me();
  const uint32_t half = fold.power() / 2;
  const auto chunk = [&](uint32_t block) { return chunk_of(build.shape(), block, lane); };
  // What becomes of block `block` once the rounds above `bit` are over: sent to the partner of round `bit`, or kept.
  const auto leaves = [&](uint32_t block, uint32_t bit) { return ((block ^ fold.id()) & bit) != 0; };
  const auto add = [&](uint32_t block, Rank from, At own, uint32_t next_bit) {
    const Ranks operands = pair(me, from);
    if (next_bit == 0) {
      build.reduce_store_send({.operands = operands, .own = own, .final = true}, output(chunk(block)),
                              later_partners(fold, 1));
    } else if (leaves(block, next_bit)) {
      build.reduce_send({.operands = operands, .own = own}, Ranks{fold.rank_of(fold.id() ^ next_bit)});
    } else {
      build.reduce_store({.operands = operands, .own = own}, output(chunk(block)));
    }
  };
  for (uint32_t block = 0; block < fold.power(); ++block) {
    if (fold.absorbs()) {
      add(block, fold.partner(), input(chunk(block)), half);
    } else if (leaves(block, half)) {
      build.send(input(chunk(block)), fold.rank_of(fold.id() ^ half));
    }
  }
  for (uint32_t bit = half; bit > 0; bit >>= 1) {
    const uint32_t decided = ~(bit - 1) & (fold.power() - 1);  // bits in which kept blocks equal this rank's number
    for (uint32_t block = 0; block < fold.power(); ++block) {
      if (((block ^ fold.id()) & decided) != 0) continue;
      const bool untouched = bit == half && !fold.absorbs();
      add(block, fold.rank_of(fold.id() ^ bit), untouched ? input(chunk(block)) : output(chunk(block)), bit >> 1);
    }
  }
}

void gather_sums(Builder& build, const Fold& fold, uint32_t lane) {
  for (uint32_t bit = 1; bit < fold.power(); bit <<= 1) {
    const uint32_t partner = fold.id() ^ bit;
    for (const uint32_t block : gathered(partner, bit, fold.power()))
      build.recv_send(fold.rank_of(partner), output(chunk_of(build.shape(), block, lane)),
                      later_partners(fold, bit << 1));
  }
}

Schedule generate(const Shape& shape, Rank me) {
  if (shape.world == 1) return copy_input(shape, me);
  const Fold fold(shape.world, me);
  Builder build(shape, me);
  for (uint32_t lane = 0; lane < shape.lanes; ++lane) {
    build.lane(lane);
    if (fold.folded()) {
      for (uint32_t block = 0; block < fold.power(); ++block)
        build.send(input(chunk_of(shape, block, lane)), fold.partner());
      for (const uint32_t block : gathered(fold.id_of(fold.partner()), 0, fold.power()))
        build.recv(fold.partner(), output(chunk_of(shape, block, lane)));
    } else {
      scatter_sums(build, fold, lane);
      gather_sums(build, fold, lane);
    }
  }
  return std::move(build).finish();
}

}  // namespace

extern constinit const Algorithm allreduce_halving_doubling = {
    .collective = Collective::allreduce,
    .name = "halving_doubling",
    .generate = generate,
    .chunks = one_chunk_a_power_and_lane,
    .order = SumOrder::own,
    .cost = "2 lg p hops, 2(p-1)/p n bytes, n more where p is no power of two; middle n",
};

}  // namespace rondo::algo
