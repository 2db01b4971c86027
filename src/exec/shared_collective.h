// SharedCollective: collectives through a workspace, memory that all members of a group read and write. Intrinsics,
// executed without steps. A call is a *turn*; how it runs depends on its size:
//
//  inlined  What a rank has to give rides in the line with which it enters the turn.
//  rounds   The call is cut into rounds, a round into one part a rank, in three phases: every rank *puts* what others
//  need
//           of its input into its workspace; *sums* (or copies) its own part into its output and its workspace; *takes*
//           the others' parts out. Collectives leave out the phases that they do not need. One flag a rank and phase;
//           no barrier; a few rounds in flight.
//  claims   Allreduce where ranks share a processor: every rank puts its whole round; once all have, whoever is running
//           sums the next piece that nobody has claimed, so that a rank that is not running delays nobody.
//  in place Allreduce when inputs and outputs of all ranks lie in memory from alloc(): a claimed piece is read from all
//           inputs and written to all outputs where they are. Each rank begins with its own part and then helps.
//
// Sums are the same in all of them: canonical tree over ranks, one rounding.
//
// Turns rise by one from 1 on every rank; a turn begins when the one before is complete here. It is not complete before
// every member has entered it, except for a broadcast, whose root waits for nobody and whose others wait for the root
// alone. Rounds are counted over all turns, so no flag is ever reset. Progress-lease holder only.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <vector>

#include "base/types.h"
#include "exec/workspace.h"
#include "kernels/kernels.h"
#include "transport/contract.h"

namespace rondo {

enum class SharedForm : uint8_t { rounds, claims };  // claims: allreduce only

struct SharedCall {
  Collective collective = Collective::allreduce;  // or barrier, broadcast, allgather, reduce_scatter, alltoall
  const std::byte* input = nullptr;
  std::byte* output = nullptr;  // broadcast: the same as the input
  size_t count = 0;             // elements; of one block where buffers are made of blocks
  DType dtype = DType::uint8;
  RedOp op = RedOp::sum;
  uint32_t divisor = 0;
  uint32_t root = 0;
  size_t piece_bytes = 0;  // rounds: a rank's part of a round; claims: what one claim covers
  SharedForm form = SharedForm::rounds;
  uint64_t fingerprint = 0;
};

class SharedCollective {
 public:
  // `members`: the fabric ranks, in the order of the area's pieces, all of which have been found. `transport` is the
  // area's; it outlives this object.
  SharedCollective(std::unique_ptr<SharedArea> area, Transport& transport, std::vector<Rank> members, uint32_t me);
  ~SharedCollective();
  static bool can(Collective collective) {
    return collective != Collective::reduce && collective != Collective::gather && collective != Collective::scatter;
  }
  // Members that a workspace has room for.
  static constexpr uint32_t kMostMembers = Workspace::kRoundBytes / 128;

  SharedArea& area() { return *area_; }
  uint64_t next_turn() const { return next_turn_; }
  // Whether every turn that has been taken is complete.
  bool idle() const { return turns_complete_ + 1 == next_turn_; }
  uint64_t take_turn() { return next_turn_++; }
  // Whether `turn` can begin: the one before is complete, and all members have left the one whose entry it overwrites.
  bool may_begin(uint64_t turn) {
    return turns_complete_ + 1 == turn &&
           (turn <= Workspace::kEntries || all_have(left_seen_, turn - Workspace::kEntries));
  }
  bool begun(uint64_t turn) const { return turn_ == turn; }
  // Whether nobody waits for more of this rank in the turn.
  bool has_given_all(uint64_t turn) const { return begun(turn) && mode_ == Mode::inlined; }
  // Enters the turn. The call's memory is read and written until advance() has said complete, or abandon(). Whoever
  // calls this sees to area().wake() before it stops to look.
  void begin(uint64_t turn, const SharedCall& call);

  enum class Step : uint8_t { still, moved, complete };
  // Does a bounded part of the turn that has begun.
  Step advance();
  // A member that has entered the turn with another fingerprint.
  std::optional<uint32_t> differing() const { return differing_; }
  // The members whose part is missing.
  std::vector<uint32_t> awaited() const;
  // The turn will not be completed: afterwards no member touches this rank's buffers.
  void abandon();

 private:
  enum class Mode : uint8_t { undecided, inlined, rounds, claims, in_place };
  struct Range {
    size_t begin = 0, count = 0;  // elements
  };
  // One rank's part of a round, in elements: where in its block (or in the whole buffer), how much, where in the room.
  struct Part {
    size_t begin = 0, count = 0, room = 0;
  };
  using Flag = std::atomic<uint64_t> Workspace::Flags::*;
  // The others' flags of one kind, as last seen.
  struct Seen {
    Flag flag;
    std::vector<uint64_t> values;
  };

  uint32_t world() const { return static_cast<uint32_t>(pieces_.size()); }
  Workspace& mine() { return *pieces_[me_]; }
  Workspace::Entry& entry_of(uint32_t member) const { return pieces_[member]->entries[turn_ % Workspace::kEntries]; }
  size_t bytes_of(size_t elements) const { return elements * size_; }
  bool is(Collective collective) const { return call_.collective == collective; }
  bool in_blocks() const {
    return is(Collective::allgather) || is(Collective::reduce_scatter) || is(Collective::alltoall);
  }
  // An input block for every rank, from which the others need theirs.
  bool gives_blocks() const { return is(Collective::reduce_scatter) || is(Collective::alltoall); }
  bool takes_blocks() const { return is(Collective::allgather) || is(Collective::alltoall); }
  bool sums() const { return is(Collective::allreduce) || is(Collective::reduce_scatter); }
  bool awaits(uint32_t member) const {
    return member != me_ && (!is(Collective::broadcast) || (member == call_.root && me_ != call_.root));
  }
  size_t given_count() const { return call_.count * (gives_blocks() ? world() : 1); }
  const std::byte* input(uint32_t block, size_t element) const {
    return call_.input + bytes_of(element + (gives_blocks() ? block * call_.count : 0));
  }
  std::byte* output(uint32_t block, size_t element) const {
    return call_.output + bytes_of(element + (takes_blocks() ? block * call_.count : 0));
  }

  // shared_rounds.cpp: how a call is divided, and the phases
  void divide();
  uint64_t number(uint32_t round) const { return first_round_ + round; }
  static uint32_t slot_of(uint64_t number) { return static_cast<uint32_t>(number % Workspace::kRounds); }
  Range round_range(uint32_t round) const;
  Range part_of(const Range& whole, uint32_t part) const;
  Range piece_of(const Range& whole, uint32_t piece) const;
  uint32_t pieces_in(const Range& whole) const;
  Part part(uint32_t round, uint32_t rank) const;
  size_t ring_offset(uint32_t round) const;
  std::byte* input_room(uint32_t member, uint32_t round) const;
  std::byte* result_room(uint32_t member, uint32_t round) const;
  bool room_is_free(uint64_t number) {
    return number < Workspace::kRounds || all_have(retired_seen_, number + 1 - Workspace::kRounds);
  }
  bool step_rounds();
  bool put();
  bool sum();
  bool take();
  void retire();
  bool put_claimed();
  bool sum_claimed();
  bool take_claimed();
  void sum_range(uint32_t round, const Range& range, size_t room, std::byte* result);
  void copy_out(std::byte* to, const std::byte* from, size_t count);

  // shared_collective.cpp
  void publish_entry();
  bool look_at_entries();
  bool decide();
  bool reach_all();
  bool has(Seen& seen, uint32_t member, uint64_t value);
  bool all_have(Seen& seen, uint64_t value);
  void finish_inlined();
  void leave();
  bool step();
  bool is_over() const;
  bool step_in_place();
  void sum_in_place(const Range& range);
  void reduce(std::byte* dst, std::byte* dst2, size_t count);
  static std::optional<uint32_t> claim(std::atomic<uint64_t>& tickets, uint64_t number, uint32_t pieces);

  std::unique_ptr<SharedArea> area_;
  Transport& transport_;
  const std::vector<Rank> members_;
  const uint32_t me_;
  const kernels::Table& kernels_;
  const size_t cache_bytes_;  // of the last level
  std::vector<Workspace*> pieces_;
  Seen put_seen_{&Workspace::Flags::put, {}}, summed_seen_{&Workspace::Flags::summed, {}},
      retired_seen_{&Workspace::Flags::retired, {}}, left_seen_{&Workspace::Flags::left, {}};

  uint64_t next_turn_ = 1, turns_complete_ = 0;
  bool first_use_ = true;                              // of the rings
  uint64_t turn_ = 0;                                  // the latest that has begun
  uint64_t first_round_ = 0;                           // the number of this turn's first round
  size_t ring_at_ = 0;                                 // where that begins in the rings
  uint64_t claims_expected_[Workspace::kRounds] = {};  // pieces summed in the slot up to the latest round taken here
  uint64_t parts_expected_ = 0;                        // pieces summed in place in all turns, this one included

  // This turn.
  SharedCall call_;
  size_t size_ = 1;         // bytes of an element
  size_t grain_ = 1;        // elements; parts begin at multiples
  size_t round_count_ = 1;  // elements of a whole round, of one block where there are blocks
  size_t piece_count_ = 1;  // elements of a claim
  size_t stride_ = 1;       // bytes of a round in the rings
  uint32_t rounds_ = 0;
  bool stream_ = false;  // outputs do not stay in the caches
  Mode mode_ = Mode::undecided;
  bool named_ = false;    // input and output have been named to the others
  uint32_t entered_ = 0;  // of members 0..entered_-1 all that are awaited have entered the turn
  std::optional<uint32_t> differing_;
  uint32_t put_ = 0, summed_ = 0, taken_ = 0;     // rounds that this rank has put, summed (or found all claimed), taken
  uint32_t takes_ = 0;                            // parts of round taken_ that have been copied out
  uint64_t own_claims_[Workspace::kRounds] = {};  // claims: bit i: this rank has summed piece i of the slot's round
  uint32_t part_pieces_ = 0;                      // in place: pieces summed by this rank
  bool told_ = false;                             // in place: and told
  std::vector<const void*> sources_;
  std::vector<std::byte*> inputs_, outputs_;  // in place: all ranks'
  std::vector<std::byte> block_;              // in place: sums on their way past the caches
};

}  // namespace rondo
