// SharedSum: allreduce through a workspace, memory that all members of a group read and write. An intrinsic, executed
// without steps, in one of three forms; the sums are the same in all of them (canonical tree over ranks, one rounding):
//
//  owners   The call is cut into rounds, a round into one part a rank. Every rank copies what the others will sum into
//           its workspace, sums its own part into its output and its workspace, and copies the others' sums out. One
//           flag a rank, phase and round; no barrier; a few rounds in flight.
//  claims   For more ranks than processors: every rank copies its whole round in; once all are there, whoever is
//  running
//           sums the next piece that nobody has claimed, so that a rank that is not running delays nobody.
//  in place When inputs and outputs of all ranks lie in memory from alloc(): a claimed piece is read from all inputs
//  and
//           written to all outputs where they are. Each rank begins with its own part and helps the others afterwards.
//
// Turns (calls of this kind on the group) rise by one from 1 on every rank; a turn begins when the one before is
// complete here, which needs every member to have entered it. Rounds are counted over all turns, so no flag is ever
// reset. Progress-lease holder only.
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

enum class SumForm : uint8_t { owners, claims };

struct SharedSumCall {
  const std::byte* input = nullptr;
  std::byte* output = nullptr;
  size_t count = 0;  // elements
  DType dtype = DType::uint8;
  RedOp op = RedOp::sum;
  uint32_t divisor = 0;
  size_t piece_bytes = 0;  // owners: a rank's part of a round; claims: what one claim covers
  SumForm form = SumForm::owners;
  uint64_t fingerprint = 0;
};

class SharedSum {
 public:
  // `members`: the fabric ranks, in the order of the area's pieces, all of which have been found. `transport` is the
  // area's; it outlives this object.
  SharedSum(std::unique_ptr<SharedArea> area, Transport& transport, std::vector<Rank> members, uint32_t me);
  ~SharedSum();

  SharedArea& area() { return *area_; }
  uint64_t take_turn() { return next_turn_++; }
  // Whether every turn that has been taken is complete.
  bool idle() const { return turns_complete_ + 1 == next_turn_; }
  // Whether `turn` can begin: the one before is complete.
  bool may_begin(uint64_t turn) const { return turns_complete_ + 1 == turn; }
  bool begun(uint64_t turn) const { return turn_ == turn; }
  // Enters the turn. The call's memory is read and written until advance() has said complete, or abandon().
  void begin(uint64_t turn, const SharedSumCall& call);

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
  enum class Mode : uint8_t { undecided, owners, claims, in_place };
  struct Range {
    size_t begin = 0, count = 0;  // elements
    bool empty() const { return count == 0; }
  };
  using Flag = std::atomic<uint64_t> Workspace::Flags::*;
  // The others' flags of one kind, as last seen.
  struct Seen {
    Flag flag;
    std::vector<uint64_t> values;
  };

  uint32_t world() const { return static_cast<uint32_t>(pieces_.size()); }
  Workspace& mine() { return *pieces_[me_]; }
  size_t bytes_of(size_t elements) const { return elements * size_; }
  std::byte* output(size_t element) const { return call_.output + bytes_of(element); }
  const std::byte* input(size_t element) const { return call_.input + bytes_of(element); }
  uint64_t number(uint32_t round) const { return first_round_ + round; }
  static uint32_t slot_of(uint64_t number) { return static_cast<uint32_t>(number % Workspace::kRounds); }
  size_t ring_offset(uint32_t round) const;
  std::byte* input_room(uint32_t member, uint32_t round) const;
  std::byte* result_room(uint32_t member, uint32_t round) const;
  Range round_range(uint32_t round) const;
  Range part_of(const Range& whole, uint32_t part) const;
  Range piece_of(const Range& whole, uint32_t piece) const;
  uint32_t pieces_in(const Range& whole) const;

  void publish_entry();
  bool look_at_entries();
  bool decide();
  bool reach_all();
  bool has(Seen& seen, uint32_t member, uint64_t value);
  bool all_have(Seen& seen, uint64_t value);
  void leave();

  bool step();
  bool step_owners();
  bool owners_put();
  bool owners_sum();
  bool owners_take();
  bool claims_put();
  bool claims_sum();
  bool claims_take();
  bool step_in_place();
  bool parts_are_done() const;
  void sum_in_place(const Range& range);
  void sum_round(uint32_t round, const Range& range, std::byte* result);
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
      taken_seen_{&Workspace::Flags::taken, {}};

  uint64_t next_turn_ = 1, turns_complete_ = 0;
  uint64_t turn_ = 0;                                  // the latest that has begun
  uint64_t first_round_ = 0;                           // the number of this turn's first round
  size_t ring_at_ = 0;                                 // where that begins in the rings
  uint64_t claims_expected_[Workspace::kRounds] = {};  // pieces summed in the slot up to the latest round taken here
  uint64_t parts_expected_ = 0;                        // pieces summed in place in all turns, this one included

  // This turn.
  SharedSumCall call_;
  size_t size_ = 1;         // bytes of an element
  size_t grain_ = 1;        // elements; parts begin at multiples
  size_t round_count_ = 1;  // elements of a whole round
  size_t piece_count_ = 1;  // elements of a piece
  size_t stride_ = 1;       // bytes of a round in the rings
  uint32_t rounds_ = 0;
  bool stream_ = false;  // outputs do not stay in the caches
  Mode mode_ = Mode::undecided;
  bool named_ = false;    // input and output have been named to the others
  uint32_t entered_ = 0;  // members 0..entered_-1 have entered the turn
  std::optional<uint32_t> differing_;
  uint32_t put_ = 0, summed_ = 0, taken_ = 0;     // rounds that this rank has put, summed (or found all claimed), taken
  uint32_t takes_ = 0;                            // owners: parts of round taken_ that have been copied out
  uint64_t own_claims_[Workspace::kRounds] = {};  // claims: bit i: this rank has summed piece i of the slot's round
  uint32_t part_pieces_ = 0;                      // in place: pieces summed by this rank
  bool told_ = false;                             // in place: and told
  std::vector<const void*> sources_;
  std::vector<std::byte*> inputs_, outputs_;  // in place: all ranks'
  std::vector<std::byte> block_;              // in place: sums on their way past the caches
};

}  // namespace rondo
