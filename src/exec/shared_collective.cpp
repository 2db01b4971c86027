#include "exec/shared_sum.h"

#include <unistd.h>

#include <algorithm>

#include "base/check.h"

namespace rondo {
namespace {

constexpr int kStepsAtOnce = 16;                  // of advance(), so that its caller looks elsewhere now and then
constexpr uint32_t kPutAhead = 2;                 // owners: rounds copied in before the sum of the oldest
constexpr size_t kGrainBytes = 64;                // parts begin on lines of the cache
constexpr size_t kBlockBytes = 8192;              // what is summed before it is copied on: both stay in the first cache
constexpr size_t kCacheBytes = size_t{32} << 20;  // where the system does not tell
constexpr uint32_t kTicketBits = 24;

size_t last_level_cache() {
  const long bytes = sysconf(_SC_LEVEL3_CACHE_SIZE);
  return bytes > 0 ? static_cast<size_t>(bytes) : kCacheBytes;
}

}  // namespace

SharedSum::SharedSum(std::unique_ptr<SharedArea> area, Transport& transport, std::vector<Rank> members, uint32_t me)
    : area_(std::move(area)),
      transport_(transport),
      members_(std::move(members)),
      me_(me),
      kernels_(kernels::best()),
      cache_bytes_(last_level_cache()) {
  for (uint32_t i = 0; i < members_.size(); ++i) {
    pieces_.push_back(reinterpret_cast<Workspace*>(area_->open(i)));
    RONDO_CHECK(pieces_.back() != nullptr);
  }
  for (Seen* seen : {&put_seen_, &summed_seen_, &taken_seen_}) seen->values.resize(world());
  sources_.resize(world());
  inputs_.resize(world());
  outputs_.resize(world());
}

SharedSum::~SharedSum() {
  if (turn_ != turns_complete_) return;
  // Acquire: pairs with leave(); whoever has left all turns touches no piece any more.
  for (const Workspace* piece : pieces_)
    if (piece->flags.left.load(std::memory_order_acquire) < turns_complete_) return;
  area_->settled();
}

// ---- how a call is divided

SharedSum::Range SharedSum::round_range(uint32_t round) const {
  const size_t begin = round * round_count_;
  return {begin, std::min(round_count_, call_.count - begin)};
}

SharedSum::Range SharedSum::part_of(const Range& whole, uint32_t part) const {
  const size_t share = (whole.count + world() - 1) / world();
  const size_t step = (share + grain_ - 1) / grain_ * grain_;
  const size_t begin = std::min(whole.count, part * step), end = std::min(whole.count, begin + step);
  return {whole.begin + begin, end - begin};
}

SharedSum::Range SharedSum::piece_of(const Range& whole, uint32_t piece) const {
  const size_t begin = piece * piece_count_;
  return {whole.begin + begin, std::min(piece_count_, whole.count - begin)};
}

uint32_t SharedSum::pieces_in(const Range& whole) const {
  return static_cast<uint32_t>((whole.count + piece_count_ - 1) / piece_count_);
}

// Rounds of this turn follow each other from ring_at_ on; one that does not fit before the end begins at the start.
size_t SharedSum::ring_offset(uint32_t round) const {
  const size_t first = (Workspace::kRingBytes - ring_at_) / stride_;
  if (round < first) return ring_at_ + round * stride_;
  return (round - first) % (Workspace::kRingBytes / stride_) * stride_;
}

std::byte* SharedSum::input_room(uint32_t member, uint32_t round) const {
  return pieces_[member]->inputs.data + Workspace::stagger(member) + ring_offset(round);
}

std::byte* SharedSum::result_room(uint32_t member, uint32_t round) const {
  return pieces_[member]->results.data + Workspace::stagger(member) + ring_offset(round);
}

// ---- a turn

void SharedSum::begin(uint64_t turn, const SharedSumCall& call) {
  RONDO_CHECK(may_begin(turn));
  if (turn == 1) area_->populate();
  turn_ = turn;
  call_ = call;
  size_ = size_of(call.dtype);
  grain_ = kGrainBytes / size_;
  const size_t least = call.form == SumForm::claims ? Workspace::kRoundBytes / Workspace::kMostPieces : kGrainBytes;
  const size_t piece_bytes = std::clamp(call.piece_bytes / kGrainBytes * kGrainBytes, least, Workspace::kRoundBytes);
  piece_count_ = piece_bytes / size_;
  const size_t round_bytes =
      call.form == SumForm::claims ? Workspace::kRoundBytes : std::min(piece_bytes * world(), Workspace::kRoundBytes);
  round_count_ = round_bytes / size_;
  rounds_ = static_cast<uint32_t>((call.count + round_count_ - 1) / round_count_);
  const size_t largest = bytes_of(std::min(round_count_, call.count));
  stride_ = (largest + Workspace::kGap - 1) / Workspace::kGap * Workspace::kGap + Workspace::kGap;
  // What all ranks' inputs and outputs leave of the cache is not enough for their workspaces too.
  stream_ = bytes_of(call.count) > cache_bytes_ / 4 / world();
  mode_ = Mode::undecided;
  entered_ = put_ = summed_ = taken_ = takes_ = part_pieces_ = 0;
  told_ = false;
  differing_.reset();
  publish_entry();
  if (!named_) decide();
}

void SharedSum::publish_entry() {
  Workspace::Entry& entry = mine().entries[turn_ & 1];
  const size_t bytes = bytes_of(call_.count);
  uint64_t input = 0, output = 0;
  named_ = transport_.locate(call_.input, bytes, &input) && transport_.locate(call_.output, bytes, &output);
  entry.fingerprint = call_.fingerprint;
  entry.input = named_ ? input + 1 : 0;
  entry.output = named_ ? output + 1 : 0;
  // Release: pairs with the acquire in look_at_entries(); what stands in the entry and in the buffers is visible then.
  entry.turn.store(turn_, std::memory_order_release);
}

// Whether one more member has been seen to enter.
bool SharedSum::look_at_entries() {
  const uint32_t before = entered_;
  for (; entered_ < world(); ++entered_) {
    const Workspace::Entry& entry = pieces_[entered_]->entries[turn_ & 1];
    if (entry.turn.load(std::memory_order_acquire) != turn_) break;
    if (entry.fingerprint == call_.fingerprint) continue;
    differing_ = entered_;
    break;
  }
  return entered_ != before;
}

// How the turn goes on; all ranks come to the same, since all see the same entries. A rank whose buffers are its own
// knows without looking.
bool SharedSum::decide() {
  if (named_ && entered_ < world()) return false;
  mode_ = call_.form == SumForm::owners ? Mode::owners : Mode::claims;
  const bool all_named = named_ && std::all_of(pieces_.begin(), pieces_.end(), [&](const Workspace* piece) {
                           const Workspace::Entry& entry = piece->entries[turn_ & 1];
                           return entry.input != 0 && entry.output != 0;
                         });
  if (!all_named) return true;
  if (!reach_all()) return false;
  mode_ = Mode::in_place;
  rounds_ = 0;
  piece_count_ = std::min(piece_count_, Workspace::kRoundBytes / size_);
  for (uint32_t part = 0; part < world(); ++part) parts_expected_ += pieces_in(part_of({0, call_.count}, part));
  return true;
}

bool SharedSum::reach_all() {
  const size_t bytes = bytes_of(call_.count);
  for (uint32_t i = 0; i < world(); ++i) {
    const Workspace::Entry& entry = pieces_[i]->entries[turn_ & 1];
    const bool own = i == me_;
    inputs_[i] = own ? const_cast<std::byte*>(call_.input) : transport_.view(members_[i], entry.input - 1, bytes);
    outputs_[i] = own ? call_.output : transport_.view(members_[i], entry.output - 1, bytes);
    if (inputs_[i] != nullptr && outputs_[i] != nullptr) continue;
    differing_ = i;  // names memory that it cannot have
    return false;
  }
  return true;
}

bool SharedSum::has(Seen& seen, uint32_t member, uint64_t value) {
  uint64_t& known = seen.values[member];
  // Acquire: pairs with the release stores of the flags; what the member has copied or summed before is visible.
  if (known < value) known = (pieces_[member]->flags.*seen.flag).load(std::memory_order_acquire);
  return known >= value;
}

bool SharedSum::all_have(Seen& seen, uint64_t value) {
  for (uint32_t member = 0; member < world(); ++member)
    if (member != me_ && !has(seen, member, value)) return false;
  return true;
}

void SharedSum::leave() {
  if (rounds_ > 0) ring_at_ = ring_offset(rounds_ - 1) + stride_;
  first_round_ += rounds_;
  turns_complete_ = turn_;
  // Release: pairs with the acquire in the destructor.
  mine().flags.left.store(turn_, std::memory_order_release);
}

SharedSum::Step SharedSum::advance() {
  if (turns_complete_ == turn_) return Step::complete;
  if (differing_) return Step::still;
  bool any = entered_ < world() && look_at_entries();
  if (differing_) return Step::still;
  if (mode_ == Mode::undecided && !decide()) return any ? Step::moved : Step::still;
  bool moved = true;
  for (int i = 0; i < kStepsAtOnce && moved; ++i) {
    moved = step();
    any |= moved;
  }
  // Nobody leaves a turn that another has not entered, an empty one either.
  const bool complete = entered_ == world() && (mode_ == Mode::in_place ? parts_are_done() : taken_ == rounds_);
  if (complete) leave();
  if (any) area_->wake();
  return complete ? Step::complete : any ? Step::moved : Step::still;
}

bool SharedSum::step() {
  switch (mode_) {
    case Mode::undecided:
      return false;
    case Mode::owners:
      return step_owners();
    case Mode::claims:
      return claims_put() || claims_sum() || claims_take();
    case Mode::in_place:
      return step_in_place();
  }
  return false;
}

// The sum of the sources at `dst`, and at `dst2` unless that is null.
void SharedSum::reduce(std::byte* dst, std::byte* dst2, size_t count) {
  kernels_.reduce[static_cast<size_t>(call_.dtype)][static_cast<size_t>(call_.op)]({.sources = sources_.data(),
                                                                                    .source_count = world(),
                                                                                    .dst = dst,
                                                                                    .dst2 = dst2,
                                                                                    .count = count,
                                                                                    .divisor = call_.divisor});
}

// Sums `range` of the round from all inputs into the own output and to `result`, where the others read it.
void SharedSum::sum_round(uint32_t round, const Range& range, std::byte* result) {
  const size_t first = round_range(round).begin;
  const size_t block = stream_ ? kBlockBytes / size_ : range.count;
  for (size_t at = 0; at < range.count; at += block) {
    const size_t begin = range.begin + at, count = std::min(block, range.count - at);
    for (uint32_t i = 0; i < world(); ++i)
      sources_[i] = i == me_ ? input(begin) : input_room(i, round) + bytes_of(begin - first);
    std::byte* const to = result + bytes_of(at);
    if (!stream_) {
      reduce(output(begin), to, count);
    } else {
      reduce(to, nullptr, count);
      kernels_.copy_stream(output(begin), nullptr, to, bytes_of(count));
    }
  }
}

// ---- owners

bool SharedSum::step_owners() {
  // What the others wait for comes first; taking is what only this rank waits for.
  return (put_ < summed_ + kPutAhead && owners_put()) || owners_sum() || owners_take() || owners_put();
}

bool SharedSum::owners_put() {
  if (put_ == rounds_) return false;
  const uint64_t round = number(put_);
  if (put_ >= Workspace::kRounds && !all_have(summed_seen_, round + 1 - Workspace::kRounds)) return false;
  const Range range = round_range(put_), own = part_of(range, me_);
  std::byte* const room = input_room(me_, put_);
  const auto put = [&](size_t begin, size_t end) {
    if (begin < end) kernels_.copy(room + bytes_of(begin - range.begin), nullptr, input(begin), bytes_of(end - begin));
  };
  put(range.begin, own.begin);
  put(own.begin + own.count, range.begin + range.count);
  ++put_;
  mine().flags.put.store(round + 1, std::memory_order_release);  // pairs with has()
  return true;
}

bool SharedSum::owners_sum() {
  if (summed_ == rounds_ || put_ <= summed_ || entered_ < world()) return false;
  const uint64_t round = number(summed_);
  if (!all_have(put_seen_, round + 1)) return false;
  if (round >= Workspace::kRounds && !all_have(taken_seen_, round + 1 - Workspace::kRounds)) return false;
  const Range range = round_range(summed_), own = part_of(range, me_);
  sum_round(summed_, own, result_room(me_, summed_) + bytes_of(own.begin - range.begin));
  ++summed_;
  mine().flags.summed.store(round + 1, std::memory_order_release);  // pairs with has()
  return true;
}

// Copies one owner's part of the oldest round out.
bool SharedSum::owners_take() {
  if (taken_ == rounds_ || summed_ <= taken_) return false;
  const uint64_t round = number(taken_);
  const Range range = round_range(taken_);
  if (takes_ + 1 < world()) {
    const uint32_t owner = (me_ + 1 + takes_) % world();
    if (!has(summed_seen_, owner, round + 1)) return false;
    const Range part = part_of(range, owner);
    const std::byte* const from = result_room(owner, taken_) + bytes_of(part.begin - range.begin);
    if (!part.empty())
      (stream_ ? kernels_.copy_stream : kernels_.copy)(output(part.begin), nullptr, from, bytes_of(part.count));
    ++takes_;
  }
  if (takes_ + 1 < world()) return true;
  takes_ = 0;
  ++taken_;
  mine().flags.taken.store(round + 1, std::memory_order_release);  // pairs with has()
  return true;
}

// ---- claims

// Takes the next of `pieces` pieces under `number`, which rises from use to use. nullopt: none is left.
std::optional<uint32_t> SharedSum::claim(std::atomic<uint64_t>& tickets, uint64_t number, uint32_t pieces) {
  uint64_t word = tickets.load(std::memory_order_relaxed);
  for (;;) {
    const uint64_t of = word >> kTicketBits;
    const uint32_t next = of == number ? static_cast<uint32_t>(word & ((1u << kTicketBits) - 1)) : 0;
    if (of > number || next >= pieces) return std::nullopt;
    // Relaxed: who may claim what is all that it says; the data come by flags and by the count of pieces done.
    if (tickets.compare_exchange_weak(word, number << kTicketBits | (next + 1), std::memory_order_relaxed)) return next;
  }
}

bool SharedSum::claims_put() {
  if (put_ == rounds_ || put_ >= taken_ + Workspace::kRounds) return false;
  const uint64_t round = number(put_);
  const Range range = round_range(put_);
  own_claims_[slot_of(round)] = 0;
  kernels_.copy(input_room(me_, put_), nullptr, input(range.begin), bytes_of(range.count));
  ++put_;
  mine().flags.put.store(round + 1, std::memory_order_release);  // pairs with has()
  return true;
}

bool SharedSum::claims_sum() {
  if (summed_ == rounds_ || put_ <= summed_ || entered_ < world()) return false;
  const uint64_t round = number(summed_);
  if (!all_have(put_seen_, round + 1)) return false;
  if (round >= Workspace::kRounds && !all_have(taken_seen_, round + 1 - Workspace::kRounds)) return false;
  Workspace& shared = *pieces_[0];
  const uint32_t slot = slot_of(round);
  const Range range = round_range(summed_);
  mine().holds.value.store(1, std::memory_order_relaxed);  // for awaited() of others, a hint
  const auto piece = claim(shared.tickets[slot].value, round + 1, pieces_in(range));
  if (piece) {
    const Range at = piece_of(range, *piece);
    sum_round(summed_, at, result_room(0, summed_) + bytes_of(at.begin - range.begin));
    own_claims_[slot] |= uint64_t{1} << *piece;
    // Release: pairs with the acquire in claims_take().
    shared.done[slot].value.fetch_add(1, std::memory_order_release);
  } else {
    ++summed_;
  }
  mine().holds.value.store(0, std::memory_order_relaxed);
  return true;
}

bool SharedSum::claims_take() {
  if (taken_ == rounds_ || summed_ <= taken_) return false;
  const uint64_t round = number(taken_);
  const uint32_t slot = slot_of(round);
  const Range range = round_range(taken_);
  const uint32_t pieces = pieces_in(range);
  // Acquire: pairs with the additions in claims_sum(); all sums of the round are visible.
  if (pieces_[0]->done[slot].value.load(std::memory_order_acquire) < claims_expected_[slot] + pieces) return false;
  for (uint32_t piece = 0; piece < pieces; ++piece) {
    if ((own_claims_[slot] >> piece & 1) != 0) continue;
    const Range at = piece_of(range, piece);
    (stream_ ? kernels_.copy_stream : kernels_.copy)(
        output(at.begin), nullptr, result_room(0, taken_) + bytes_of(at.begin - range.begin), bytes_of(at.count));
  }
  claims_expected_[slot] += pieces;
  ++taken_;
  mine().flags.taken.store(round + 1, std::memory_order_release);  // pairs with has()
  return true;
}

// ---- in place

bool SharedSum::step_in_place() {
  if (told_) return false;
  mine().holds.value.store(1, std::memory_order_relaxed);  // for awaited() of others, a hint
  for (uint32_t i = 0; i < world(); ++i) {
    const uint32_t part = (me_ + i) % world();
    const Range range = part_of({0, call_.count}, part);
    const auto piece = claim(pieces_[part]->part_tickets.value, turn_, pieces_in(range));
    if (!piece) continue;
    sum_in_place(piece_of(range, *piece));
    ++part_pieces_;
    return true;
  }
  told_ = true;
  // Release: pairs with the acquire in parts_are_done().
  pieces_[0]->parts_done.value.fetch_add(part_pieces_, std::memory_order_release);
  mine().holds.value.store(0, std::memory_order_relaxed);
  return true;
}

// Then all outputs are whole, and nobody reads the own input any more.
bool SharedSum::parts_are_done() const {
  return told_ && pieces_[0]->parts_done.value.load(std::memory_order_acquire) >= parts_expected_;
}

// Block by block: from all inputs into one place, from there, while it is in the first cache, to all outputs.
void SharedSum::sum_in_place(const Range& range) {
  const size_t block = kBlockBytes / size_;
  const bool two_at_once = world() == 2 && !stream_ && inputs_[1] != outputs_[1];
  if (stream_ && block_.empty()) block_.resize(kBlockBytes);
  for (size_t at = 0; at < range.count; at += block) {
    const size_t offset = bytes_of(range.begin + at), count = std::min(block, range.count - at);
    for (uint32_t i = 0; i < world(); ++i) sources_[i] = inputs_[i] + offset;
    const auto to = [&](uint32_t i) { return i < world() ? outputs_[i] + offset : nullptr; };
    if (two_at_once) {
      reduce(to(0), to(1), count);
      continue;
    }
    std::byte* const sum = stream_ ? block_.data() : to(0);
    reduce(sum, nullptr, count);
    for (uint32_t i = stream_ ? 0 : 1; i < world(); i += 2)
      (stream_ ? kernels_.copy_stream : kernels_.copy)(to(i), to(i + 1), sum, bytes_of(count));
  }
}

// ---- when it does not go on

std::vector<uint32_t> SharedSum::awaited() const {
  std::vector<uint32_t> absent, late;
  const auto holds = [&](uint32_t i) { return pieces_[i]->holds.value.load(std::memory_order_relaxed) != 0; };
  const auto behind = [&](uint32_t i, Flag flag, uint32_t round) {
    return round < rounds_ && (pieces_[i]->flags.*flag).load(std::memory_order_relaxed) <= number(round);
  };
  for (uint32_t i = 0; i < world(); ++i) {
    if (i == me_) continue;
    if (pieces_[i]->entries[turn_ & 1].turn.load(std::memory_order_relaxed) != turn_) absent.push_back(i);
    const bool owes = mode_ == Mode::in_place ? holds(i)
                      : mode_ == Mode::claims
                          ? holds(i) || behind(i, &Workspace::Flags::put, summed_)
                          : behind(i, &Workspace::Flags::put, summed_) || behind(i, &Workspace::Flags::summed, taken_);
    if (owes) late.push_back(i);
  }
  // While a member has not entered, the others may owe something because of it.
  return absent.empty() ? late : absent;
}

void SharedSum::abandon() {
  if (turn_ == turns_complete_ || !named_ || mode_ == Mode::owners || mode_ == Mode::claims) return;
  const size_t bytes = bytes_of(call_.count);
  // Where there is no memory for the copy the peers see the failure as soon as this rank does and stop by themselves.
  (void)transport_.part(call_.output, bytes);
  if (call_.input != call_.output) (void)transport_.part(const_cast<std::byte*>(call_.input), bytes);
}

}  // namespace rondo
