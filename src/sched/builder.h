// Builder: how an algorithm writes down one rank's Schedule, in the order in which each lane runs.
// Used by src/algo only. Not thread-safe; one Builder makes one Schedule.
#pragma once

#include <cstdint>
#include <initializer_list>
#include <span>
#include <vector>

#include "sched/peers.h"
#include "sched/schedule.h"

namespace rondo {

// A chunk in a place.
struct At {
  Place place;
  uint32_t chunk;
  bool operator==(const At&) const = default;
};
constexpr At input(uint32_t chunk) { return {Place::input, chunk}; }
constexpr At output(uint32_t chunk) { return {Place::output, chunk}; }
constexpr At scratch(uint32_t slot) { return {Place::scratch, slot}; }

class Builder {
 public:
  Builder(const Shape& shape, Rank me);

  using Peers = std::span<const uint32_t>;

  // The lane that the following steps go to; lane 0 at first.
  Builder& lane(uint32_t index);
  // The next step runs only once `lane` has retired `steps` steps of the same slice.
  Builder& wait(uint32_t lane, uint32_t steps);
  // Steps written so far to `lane`: what wait() takes.
  uint32_t count(uint32_t lane) const { return static_cast<uint32_t>(lanes_[lane].size()); }

  // A new scratch chunk of the size of `chunk`.
  At new_scratch(uint32_t chunk);

  Builder& copy(At from, At dst) { return copy_send(from, dst, {}); }
  Builder& copy_send(At from, At dst, Peers to);  // copies and sends
  Builder& send(At source, Peers to);
  Builder& send(At source, uint32_t to) { return send(source, Peers(&to, 1)); }
  Builder& recv(uint32_t from, At dst);
  Builder& recv_send(uint32_t from, At dst, Peers to);    // stores and forwards
  Builder& forward(uint32_t from, At size_of, Peers to);  // forwards without storing
  Builder& drop(uint32_t from, At size_of);               // takes a message and drops it
  Builder& idle();                                        // verbs 0: a join; use with wait()

  // Reductions over `operands` in list order; the own rank in the list stands for `own`.
  struct Reduce {
    Peers operands;
    At own;
    bool final = false;  // completes the sum of all ranks
  };
  Builder& reduce_store(const Reduce& reduce, At dst);
  Builder& reduce_send(const Reduce& reduce, Peers to);  // stored nowhere
  Builder& reduce_store_send(const Reduce& reduce, At dst, Peers to);

  Schedule finish() &&;

  Rank me() const { return me_; }
  uint32_t world() const { return shape_.world; }
  const Shape& shape() const { return shape_; }

 private:
  Builder& push(Step step);

  Shape shape_;
  Rank me_;
  uint32_t lane_ = 0;
  uint8_t wait_lane_ = 0;
  uint32_t wait_step_ = 0;
  std::vector<std::vector<Step>> lanes_;
  PeerPool peers_;
  std::vector<uint32_t> scratch_;
};

}  // namespace rondo
