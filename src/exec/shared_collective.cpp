#include "exec/shared_collective.h"

#include <unistd.h>

#include <algorithm>

#include "base/check.h"
#include "transport/moves.h"

namespace rondo {
namespace {

constexpr int kStepsAtOnce = 16;                  // of advance(), so that its caller looks elsewhere now and then
constexpr size_t kBlockBytes = 8192;              // what is summed before it is copied on: both stay in the first cache
constexpr size_t kCacheBytes = size_t{32} << 20;  // where the system does not tell

size_t last_level_cache() {
  const long bytes = sysconf(_SC_LEVEL3_CACHE_SIZE);
  return bytes > 0 ? static_cast<size_t>(bytes) : kCacheBytes;
}

}  // namespace

SharedCollective::SharedCollective(std::unique_ptr<SharedArea> area, Transport& transport, std::vector<Rank> members,
                                   uint32_t me)
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
  for (Seen* seen : {&put_seen_, &summed_seen_, &retired_seen_, &left_seen_}) seen->values.resize(world());
  sources_.resize(world());
  inputs_.resize(world());
  outputs_.resize(world());
}

SharedCollective::~SharedCollective() {
  if (turn_ != turns_complete_) return;
  // Acquire: pairs with leave(); whoever has left all turns touches no piece any more.
  for (const Workspace* piece : pieces_)
    if (piece->flags.left.load(std::memory_order_acquire) < turns_complete_) return;
  area_->settled();
}

// ---- a turn

void SharedCollective::begin(uint64_t turn, const SharedCall& call) {
  RONDO_CHECK(turns_complete_ + 1 == turn);
  turn_ = turn;
  call_ = call;
  divide();
  mode_ = bytes_of(given_count()) <= Workspace::kPayloadBytes ? Mode::inlined : Mode::undecided;
  if (mode_ == Mode::inlined) {
    rounds_ = 0;
  } else if (first_use_) {
    first_use_ = false;
    area_->populate();
  }
  entered_ = put_ = summed_ = taken_ = takes_ = part_pieces_ = 0;
  told_ = false;
  differing_.reset();
  publish_entry();
  if (mode_ == Mode::undecided && !named_) decide();
}

void SharedCollective::publish_entry() {
  Workspace::Entry& entry = entry_of(me_);
  named_ = false;
  entry.fingerprint = call_.fingerprint;
  if (mode_ == Mode::inlined) {
    if (!is(Collective::broadcast) || me_ == call_.root)
      copy_moves(entry.payload, call_.input, bytes_of(given_count()));
  } else if (is(Collective::allreduce)) {
    const size_t bytes = bytes_of(call_.count);
    uint64_t input = 0, output = 0;
    named_ = transport_.locate(call_.input, bytes, &input) && transport_.locate(call_.output, bytes, &output);
    entry.input = named_ ? input + 1 : 0;
    entry.output = named_ ? output + 1 : 0;
  }
  // Release: pairs with the acquire in look_at_entries(); what stands in the entry and in the buffers is visible then.
  entry.turn.store(turn_, std::memory_order_release);
}

// Whether one more member has been seen to enter.
bool SharedCollective::look_at_entries() {
  const uint32_t before = entered_;
  for (; entered_ < world(); ++entered_) {
    if (!awaits(entered_)) continue;
    const Workspace::Entry& entry = entry_of(entered_);
    if (entry.turn.load(std::memory_order_acquire) != turn_) break;
    if (entry.fingerprint == call_.fingerprint) continue;
    differing_ = entered_;
    break;
  }
  return entered_ != before;
}

// How the turn goes on; all ranks come to the same, since all see the same entries. A rank whose buffers are its own
// knows without looking.
bool SharedCollective::decide() {
  if (named_ && entered_ < world()) return false;
  mode_ = call_.form == SharedForm::rounds ? Mode::rounds : Mode::claims;
  // Whoever does not put, or does not sum, has nothing to do in that phase.
  if (mode_ == Mode::rounds && !sums() && !is(Collective::alltoall)) put_ = rounds_;
  if (is(Collective::broadcast) && me_ != call_.root) summed_ = rounds_;
  const bool all_named = named_ && std::all_of(pieces_.begin(), pieces_.end(), [&](const Workspace* piece) {
                           const Workspace::Entry& entry = piece->entries[turn_ % Workspace::kEntries];
                           return entry.input != 0 && entry.output != 0;
                         });
  if (!all_named) return true;
  mode_ = Mode::undecided;
  if (!reach_all()) return false;
  mode_ = Mode::in_place;
  rounds_ = 0;
  for (uint32_t part = 0; part < world(); ++part) parts_expected_ += pieces_in(part_of({0, call_.count}, part));
  return true;
}

bool SharedCollective::reach_all() {
  const size_t bytes = bytes_of(call_.count);
  for (uint32_t i = 0; i < world(); ++i) {
    const Workspace::Entry& entry = entry_of(i);
    const bool own = i == me_;
    inputs_[i] = own ? const_cast<std::byte*>(call_.input) : transport_.view(members_[i], entry.input - 1, bytes);
    outputs_[i] = own ? call_.output : transport_.view(members_[i], entry.output - 1, bytes);
    if (inputs_[i] != nullptr && outputs_[i] != nullptr) continue;
    differing_ = i;  // names memory that it cannot have
    return false;
  }
  return true;
}

bool SharedCollective::has(Seen& seen, uint32_t member, uint64_t value) {
  uint64_t& known = seen.values[member];
  // Acquire: pairs with the release stores of the flags; what the member has copied or summed before is visible.
  if (known < value) known = (pieces_[member]->flags.*seen.flag).load(std::memory_order_acquire);
  return known >= value;
}

bool SharedCollective::all_have(Seen& seen, uint64_t value) {
  for (uint32_t member = 0; member < world(); ++member)
    if (member != me_ && !has(seen, member, value)) return false;
  return true;
}

// Everything that the others give stands in their entries.
void SharedCollective::finish_inlined() {
  const auto given = [&](uint32_t rank, uint32_t block) {
    const std::byte* const all = rank == me_ ? call_.input : entry_of(rank).payload;
    return all + (gives_blocks() ? bytes_of(block * call_.count) : 0);
  };
  if (sums()) {
    for (uint32_t i = 0; i < world(); ++i) sources_[i] = given(i, me_);
    if (call_.count > 0) reduce(call_.output, nullptr, call_.count);
    return;
  }
  const size_t bytes = bytes_of(call_.count);
  for (uint32_t i = 0; i < world(); ++i) {
    const bool wanted = takes_blocks() || (is(Collective::broadcast) && i == call_.root);
    std::byte* const to = output(i, 0);
    if (wanted && to != given(i, me_)) copy_moves(to, given(i, me_), bytes);
  }
}

void SharedCollective::leave() {
  if (rounds_ > 0) ring_at_ = ring_offset(rounds_ - 1) + stride_;
  first_round_ += rounds_;
  turns_complete_ = turn_;
  // Release: pairs with the acquire in the destructor.
  mine().flags.left.store(turn_, std::memory_order_release);
}

bool SharedCollective::is_over() const {
  // Nobody leaves a turn that another whom it awaits has not entered, an empty one either.
  if (entered_ < world()) return false;
  if (mode_ != Mode::in_place) return taken_ == rounds_;
  // Acquire: pairs with the addition in step_in_place(). All outputs are whole then, and nobody reads the own input any
  // more.
  return told_ && pieces_[0]->parts_done.value.load(std::memory_order_acquire) >= parts_expected_;
}

SharedCollective::Step SharedCollective::advance() {
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
  const bool over = is_over();
  if (over) {
    if (mode_ == Mode::inlined) finish_inlined();
    leave();
  }
  if (any || over) area_->wake();
  return over ? Step::complete : any ? Step::moved : Step::still;
}

bool SharedCollective::step() {
  switch (mode_) {
    case Mode::undecided:
    case Mode::inlined:
      return false;
    case Mode::rounds:
      return step_rounds();
    case Mode::claims:
      return put_claimed() || sum_claimed() || take_claimed();
    case Mode::in_place:
      return step_in_place();
  }
  return false;
}

// The sum of the sources at `dst`, and at `dst2` unless that is null.
void SharedCollective::reduce(std::byte* dst, std::byte* dst2, size_t count) {
  kernels_.reduce[static_cast<size_t>(call_.dtype)][static_cast<size_t>(call_.op)]({.sources = sources_.data(),
                                                                                    .source_count = world(),
                                                                                    .dst = dst,
                                                                                    .dst2 = dst2,
                                                                                    .count = count,
                                                                                    .divisor = call_.divisor});
}

// ---- in place

bool SharedCollective::step_in_place() {
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
  // Release: pairs with the acquire in is_over().
  pieces_[0]->parts_done.value.fetch_add(part_pieces_, std::memory_order_release);
  mine().holds.value.store(0, std::memory_order_relaxed);
  return true;
}

// Block by block: from all inputs into one place, from there, while it is in the first cache, to all outputs.
void SharedCollective::sum_in_place(const Range& range) {
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

std::vector<uint32_t> SharedCollective::awaited() const {
  std::vector<uint32_t> absent, late;
  const auto behind = [&](uint32_t i, Flag flag, uint64_t number) {
    return (pieces_[i]->flags.*flag).load(std::memory_order_relaxed) <= number;
  };
  for (uint32_t i = 0; i < world(); ++i) {
    if (i == me_) continue;
    if (awaits(i) && entry_of(i).turn.load(std::memory_order_relaxed) != turn_) absent.push_back(i);
    const bool holds = pieces_[i]->holds.value.load(std::memory_order_relaxed) != 0;
    const bool owes_put = summed_ < rounds_ && awaits(i) && behind(i, &Workspace::Flags::put, number(summed_));
    const bool owes_sum = taken_ < rounds_ && awaits(i) && behind(i, &Workspace::Flags::summed, number(taken_));
    // Rooms of that many rounds before are not free: for the round that would be made next.
    const uint64_t next = number(std::min(put_, summed_));
    const bool owes_room = taken_ < rounds_ && next >= Workspace::kRounds &&
                           behind(i, &Workspace::Flags::retired, next - Workspace::kRounds);
    const bool owes = mode_ == Mode::in_place || mode_ == Mode::inlined ? holds
                      : mode_ == Mode::claims                           ? holds || owes_put || owes_room
                      : is(Collective::alltoall)                        ? owes_put || owes_room
                      : sums()                                          ? owes_put || owes_sum || owes_room
                                                                        : owes_sum || owes_room;
    if (owes) late.push_back(i);
  }
  // While a member has not entered, the others may owe something because of it.
  return absent.empty() ? late : absent;
}

void SharedCollective::abandon() {
  if (turn_ == turns_complete_ || !named_ || mode_ == Mode::rounds || mode_ == Mode::claims) return;
  const size_t bytes = bytes_of(call_.count);
  // Where there is no memory for the copy the peers see the failure as soon as this rank does and stop by themselves.
  (void)transport_.part(call_.output, bytes);
  if (call_.input != call_.output) (void)transport_.part(const_cast<std::byte*>(call_.input), bytes);
}

}  // namespace rondo
