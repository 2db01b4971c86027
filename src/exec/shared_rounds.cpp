// The rounds of SharedCollective: how a call is divided, and the phases put, sum and take.
#include <algorithm>

#include "base/check.h"
#include "exec/shared_collective.h"

namespace rondo {
namespace {

constexpr uint32_t kPutAhead = 2;     // rounds put before the sum of the oldest
constexpr size_t kGrainBytes = 64;    // parts begin on lines of the cache
constexpr size_t kBlockBytes = 8192;  // what is summed before it is stored past the caches

constexpr size_t up(size_t value, size_t unit) { return (value + unit - 1) / unit * unit; }

}  // namespace

// ---- how a call is divided

void SharedCollective::divide() {
  size_ = size_of(call_.dtype);
  grain_ = kGrainBytes / size_;
  const bool claims = call_.form == SharedForm::claims;
  const size_t most = Workspace::kRoundBytes / (gives_blocks() ? world() : 1) / kGrainBytes * kGrainBytes;
  const size_t least = claims ? Workspace::kRoundBytes / Workspace::kMostPieces : kGrainBytes;
  const size_t piece_bytes = std::clamp(call_.piece_bytes / kGrainBytes * kGrainBytes, least, most);
  const size_t round_bytes = claims                      ? Workspace::kRoundBytes
                             : is(Collective::allreduce) ? std::min(piece_bytes * world(), Workspace::kRoundBytes)
                                                         : piece_bytes;
  piece_count_ = piece_bytes / size_;
  round_count_ = round_bytes / size_;
  rounds_ = static_cast<uint32_t>((call_.count + round_count_ - 1) / round_count_);
  round_count_ = std::max<size_t>(std::min(round_count_, call_.count), 1);
  stride_ = up(bytes_of(round_count_) * (gives_blocks() ? world() : 1), Workspace::kGap) + Workspace::kGap;
  // What all ranks' inputs and outputs leave of the cache is not enough for their workspaces too.
  stream_ = bytes_of(call_.count) * (in_blocks() ? world() : 1) > cache_bytes_ / 4 / world();
}

SharedCollective::Range SharedCollective::round_range(uint32_t round) const {
  const size_t begin = round * round_count_;
  return {begin, std::min(round_count_, call_.count - begin)};
}

SharedCollective::Range SharedCollective::part_of(const Range& whole, uint32_t part) const {
  const size_t step = up((whole.count + world() - 1) / world(), grain_);
  const size_t begin = std::min(whole.count, part * step), end = std::min(whole.count, begin + step);
  return {whole.begin + begin, end - begin};
}

SharedCollective::Range SharedCollective::piece_of(const Range& whole, uint32_t piece) const {
  const size_t begin = piece * piece_count_;
  return {whole.begin + begin, std::min(piece_count_, whole.count - begin)};
}

uint32_t SharedCollective::pieces_in(const Range& whole) const {
  return static_cast<uint32_t>((whole.count + piece_count_ - 1) / piece_count_);
}

SharedCollective::Part SharedCollective::part(uint32_t round, uint32_t rank) const {
  const Range range = round_range(round);
  if (in_blocks()) return {range.begin, range.count, gives_blocks() ? rank * round_count_ : 0};
  if (is(Collective::broadcast)) return {range.begin, rank == call_.root ? range.count : 0, 0};
  const Range own = part_of(range, rank);
  return {own.begin, own.count, own.begin - range.begin};
}

// Rounds of this turn follow each other from ring_at_ on; one that does not fit before the end begins at the start.
size_t SharedCollective::ring_offset(uint32_t round) const {
  const size_t first = (Workspace::kRingBytes - ring_at_) / stride_;
  if (round < first) return ring_at_ + round * stride_;
  return (round - first) % (Workspace::kRingBytes / stride_) * stride_;
}

std::byte* SharedCollective::input_room(uint32_t member, uint32_t round) const {
  return pieces_[member]->inputs.data + Workspace::stagger(member) + ring_offset(round);
}

std::byte* SharedCollective::result_room(uint32_t member, uint32_t round) const {
  return pieces_[member]->results.data + Workspace::stagger(member) + ring_offset(round);
}

// ---- the phases

bool SharedCollective::step_rounds() {
  // What the others wait for comes first; taking is what only this rank waits for.
  return (put_ < summed_ + kPutAhead && put()) || sum() || take() || put();
}

bool SharedCollective::put() {
  if (put_ == rounds_ || !room_is_free(number(put_))) return false;
  std::byte* const room = input_room(me_, put_);
  for (uint32_t i = 1; i < world(); ++i) {
    const uint32_t reader = (me_ + i) % world();
    const Part given = part(put_, reader);
    if (given.count > 0)
      kernels_.copy(room + bytes_of(given.room), nullptr, input(reader, given.begin), bytes_of(given.count));
  }
  mine().flags.put.store(number(put_) + 1, std::memory_order_release);  // pairs with has()
  ++put_;
  return true;
}

// Makes the own part of the oldest round: the sum of all ranks', or what there is to pass on.
bool SharedCollective::sum() {
  if (summed_ == rounds_ || put_ <= summed_ || entered_ < world()) return false;
  const uint64_t round = number(summed_);
  if (sums() && !all_have(put_seen_, round + 1)) return false;
  if (!gives_blocks() && !room_is_free(round)) return false;
  const Part own = part(summed_, me_);
  std::byte* const room = result_room(me_, summed_) + bytes_of(own.room);
  if (sums()) {
    sum_range(summed_, {own.begin, own.count}, own.room, is(Collective::allreduce) ? room : nullptr);
  } else {
    const std::byte* const from = input(me_, own.begin);
    std::byte* const to = output(me_, own.begin);
    if (from != to) copy_out(to, from, own.count);
    if (!is(Collective::alltoall)) kernels_.copy(room, nullptr, from, bytes_of(own.count));
  }
  mine().flags.summed.store(round + 1, std::memory_order_release);  // pairs with has()
  ++summed_;
  return true;
}

// Copies one other rank's part of the oldest round out.
bool SharedCollective::take() {
  if (taken_ == rounds_ || summed_ <= taken_) return false;
  const uint64_t round = number(taken_);
  const uint32_t owners = is(Collective::reduce_scatter) || (is(Collective::broadcast) && me_ == call_.root) ? 0
                          : is(Collective::broadcast)                                                        ? 1
                                                      : world() - 1;
  if (takes_ < owners) {
    const uint32_t owner = is(Collective::broadcast) ? call_.root : (me_ + 1 + takes_) % world();
    const bool put_is_enough = is(Collective::alltoall);
    if (!has(put_is_enough ? put_seen_ : summed_seen_, owner, round + 1)) return false;
    const Part theirs = part(taken_, owner);
    const std::byte* const from = put_is_enough ? input_room(owner, taken_) + bytes_of(part(taken_, me_).room)
                                                : result_room(owner, taken_) + bytes_of(theirs.room);
    copy_out(output(owner, theirs.begin), from, theirs.count);
    ++takes_;
  }
  if (takes_ == owners) retire();
  return true;
}

// The oldest round is over here: its rooms are not looked at any more.
void SharedCollective::retire() {
  takes_ = 0;
  mine().flags.retired.store(number(taken_) + 1, std::memory_order_release);  // pairs with has()
  ++taken_;
}

void SharedCollective::copy_out(std::byte* to, const std::byte* from, size_t count) {
  if (count > 0) (stream_ ? kernels_.copy_stream : kernels_.copy)(to, nullptr, from, bytes_of(count));
}

// Sums `range` of a round, which begins at element `room` of the rooms, from all inputs into the own output, and to
// `result` unless that is null, where the others read it.
void SharedCollective::sum_range(uint32_t round, const Range& range, size_t room, std::byte* result) {
  const bool past_caches = stream_ && result != nullptr;
  const size_t block = past_caches ? kBlockBytes / size_ : std::max<size_t>(range.count, 1);
  for (size_t at = 0; at < range.count; at += block) {
    const size_t begin = range.begin + at, count = std::min(block, range.count - at);
    for (uint32_t i = 0; i < world(); ++i)
      sources_[i] = i == me_ ? input(me_, begin) : input_room(i, round) + bytes_of(room + at);
    std::byte* const to = result == nullptr ? nullptr : result + bytes_of(at);
    if (!past_caches) {
      reduce(output(me_, begin), to, count);
    } else {
      reduce(to, nullptr, count);
      kernels_.copy_stream(output(me_, begin), nullptr, to, bytes_of(count));
    }
  }
}

// ---- claims

bool SharedCollective::put_claimed() {
  if (put_ == rounds_ || put_ >= taken_ + Workspace::kRounds || !room_is_free(number(put_))) return false;
  const Range range = round_range(put_);
  own_claims_[slot_of(number(put_))] = 0;
  kernels_.copy(input_room(me_, put_), nullptr, input(0, range.begin), bytes_of(range.count));
  mine().flags.put.store(number(put_) + 1, std::memory_order_release);  // pairs with has()
  ++put_;
  return true;
}

bool SharedCollective::sum_claimed() {
  if (summed_ == rounds_ || put_ <= summed_ || entered_ < world()) return false;
  const uint64_t round = number(summed_);
  if (!all_have(put_seen_, round + 1) || !room_is_free(round)) return false;
  Workspace& shared = *pieces_[0];
  const uint32_t slot = slot_of(round);
  const Range range = round_range(summed_);
  mine().holds.value.store(1, std::memory_order_relaxed);  // for awaited() of others, a hint
  const auto piece = claim(shared.tickets[slot].value, round + 1, pieces_in(range));
  if (piece) {
    const Range at = piece_of(range, *piece);
    const size_t room = at.begin - range.begin;
    sum_range(summed_, at, room, result_room(0, summed_) + bytes_of(room));
    own_claims_[slot] |= uint64_t{1} << *piece;
    // Release: pairs with the acquire in take_claimed().
    shared.done[slot].value.fetch_add(1, std::memory_order_release);
  } else {
    ++summed_;
  }
  mine().holds.value.store(0, std::memory_order_relaxed);
  return true;
}

bool SharedCollective::take_claimed() {
  if (taken_ == rounds_ || summed_ <= taken_) return false;
  const uint32_t slot = slot_of(number(taken_));
  const Range range = round_range(taken_);
  const uint32_t pieces = pieces_in(range);
  // Acquire: pairs with the additions in sum_claimed(); all sums of the round are visible.
  if (pieces_[0]->done[slot].value.load(std::memory_order_acquire) < claims_expected_[slot] + pieces) return false;
  for (uint32_t piece = 0; piece < pieces; ++piece) {
    if ((own_claims_[slot] >> piece & 1) != 0) continue;
    const Range at = piece_of(range, piece);
    copy_out(output(0, at.begin), result_room(0, taken_) + bytes_of(at.begin - range.begin), at.count);
  }
  claims_expected_[slot] += pieces;
  retire();
  return true;
}

// Takes the next of `pieces` pieces under `number`, which rises from use to use. nullopt: none is left.
std::optional<uint32_t> SharedCollective::claim(std::atomic<uint64_t>& tickets, uint64_t number, uint32_t pieces) {
  constexpr uint32_t kBits = Workspace::kTicketBits;
  uint64_t word = tickets.load(std::memory_order_relaxed);
  for (;;) {
    const uint64_t of = word >> kBits;
    const uint32_t next = of == number ? static_cast<uint32_t>(word & ((1u << kBits) - 1)) : 0;
    if (of > number || next >= pieces) return std::nullopt;
    // Relaxed: who may claim what is all that it says; the data come by flags and by the count of pieces done.
    if (tickets.compare_exchange_weak(word, number << kBits | (next + 1), std::memory_order_relaxed)) return next;
  }
}

}  // namespace rondo
