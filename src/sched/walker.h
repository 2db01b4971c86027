// The Walker: the one piece of code that knows when a step may run. The verifier, the executor (and later the simulator)
// are Runners on it, so order and hazards cannot differ between what is proven and what is executed.
//
// The same Schedule runs once per slice. An *instance* is (step, slice). Rules:
//  - a lane runs its steps in order, within a slice; slices of one lane are independent streams;
//  - slice k may start once slice k - window is complete (so at most `window` slices are in flight);
//  - a step with a wait runs once wait_lane has retired wait_step steps of the same slice;
//  - a step never writes a chunk that an unfinished instance of the same slice reads or writes (a send still reading its
//    source, a pending copy or reduction), and never reads one that such an instance writes. With `in_place`, chunk c of
//    the input and chunk c of the output are the same memory.
// Not thread-safe: it belongs to whoever drives the operation. No allocation after reset().
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "base/check.h"
#include "sched/schedule.h"

namespace rondo {

struct Instance {
  uint32_t step;  // index into Schedule::steps
  uint32_t slice;
  uint32_t lane;
  bool operator==(const Instance&) const = default;
};

// What a Runner answers when it is offered an instance.
enum class Outcome : uint8_t {
  blocked,  // nothing happened: offer it again later
  done,     // retired; nothing reads its chunks any more
  sending,  // retired; its sends still read what they send: sent() will follow
  pending,  // started, not retired: finished() will follow
};

class Walker {
 public:
  struct Options {
    uint32_t slices = 1;
    uint32_t window = 1;
    bool in_place = false;
  };

  Walker() = default;
  Walker(const Schedule& schedule, const Options& options) { reset(schedule, options); }

  // Starts over. `schedule` is borrowed until the next reset.
  void reset(const Schedule& schedule, const Options& options);

  // Offers what may run to `run(const Instance&, const Step&) -> Outcome`, oldest slice first, one step a lane and slice
  // per pass, until a pass moves nothing. Returns whether anything moved.
  template <class Run>
  bool advance(Run&& run);

  // A pending instance has retired. `still_sending`: its sends still read their source.
  void finished(const Instance& instance, bool still_sending);
  // The sends of an instance no longer read their source.
  void sent(const Instance& instance);

  bool complete() const { return oldest_ == options_.slices && busy_.empty(); }
  // The oldest slice that is not complete; equals slices() when all steps have retired.
  uint32_t oldest_slice() const { return oldest_; }
  uint32_t slices() const { return options_.slices; }
  uint64_t retired() const { return retired_; }  // instances, all lanes and slices: a progress counter
  // Calls `see(const Instance&, const Step&)` with the instance at the head of every lane of every slice in flight: what
  // the operation waits for.
  template <class See>
  void heads(See&& see) const;

 private:
  struct Busy {
    Instance instance;
    bool reads_src, reads_dst, writes_dst;
  };
  struct Cursor {
    uint32_t next = 0;  // steps of the lane retired in this slice
    bool pending = false;
  };

  Cursor& cursor(uint32_t slice, uint32_t lane) { return cursors_[(slice % options_.window) * schedule_->lanes + lane]; }
  const Cursor& cursor(uint32_t slice, uint32_t lane) const {
    return cursors_[(slice % options_.window) * schedule_->lanes + lane];
  }
  uint32_t lane_length(uint32_t lane) const { return schedule_->lane_begin[lane + 1] - schedule_->lane_begin[lane]; }
  bool may_run(const Step& step, uint32_t slice) const;
  bool hazard(const Step& step, uint32_t slice) const;
  bool same_memory(Place a, uint32_t chunk_a, Place b, uint32_t chunk_b) const;
  void retire(const Instance& instance);
  void close_slices();

  const Schedule* schedule_ = nullptr;
  Options options_;
  uint32_t oldest_ = 0;
  uint64_t retired_ = 0;
  std::vector<Cursor> cursors_;     // window * lanes
  std::vector<uint32_t> unretired_; // per slice in flight: steps not yet retired
  std::vector<Busy> busy_;
};

// Whether the own rank stands in the step's operand list, so that the step reads its source chunk.
inline bool reads_source(const Schedule& schedule, const Step& step) {
  if (!has(step, kRecv)) return (step.verbs & (kStore | kSend)) != 0;
  if (!has(step, kReduce)) return false;
  for (const uint32_t rank : schedule.list(step.from))
    if (rank == schedule.rank) return true;
  return false;
}

inline bool Walker::may_run(const Step& step, uint32_t slice) const {
  if (step.wait_step != 0 && cursor(slice, step.wait_lane).next < step.wait_step) return false;
  return busy_.empty() || !hazard(step, slice);
}

template <class Run>
bool Walker::advance(Run&& run) {
  bool moved_ever = false;
  for (bool moved = true; moved;) {
    moved = false;
    const uint32_t end = options_.slices - oldest_ < options_.window ? options_.slices : oldest_ + options_.window;
    for (uint32_t slice = oldest_; slice < end; ++slice) {
      for (uint32_t lane = 0; lane < schedule_->lanes; ++lane) {
        Cursor& at = cursor(slice, lane);
        if (at.pending || at.next == lane_length(lane)) continue;
        const Instance instance{schedule_->lane_begin[lane] + at.next, slice, lane};
        const Step& step = schedule_->steps[instance.step];
        if (!may_run(step, slice)) continue;
        const Outcome outcome = run(instance, step);
        if (outcome == Outcome::blocked) continue;
        moved = true;
        if (outcome == Outcome::pending) {
          at.pending = true;
          busy_.push_back({instance, reads_source(*schedule_, step), false, has(step, kStore)});
          continue;
        }
        if (outcome == Outcome::sending)
          busy_.push_back({instance, !has(step, kStore), has(step, kStore), false});
        retire(instance);
      }
    }
    close_slices();
    moved_ever |= moved;
  }
  return moved_ever;
}

template <class See>
void Walker::heads(See&& see) const {
  const uint32_t end = options_.slices - oldest_ < options_.window ? options_.slices : oldest_ + options_.window;
  for (uint32_t slice = oldest_; slice < end; ++slice)
    for (uint32_t lane = 0; lane < schedule_->lanes; ++lane) {
      const Cursor& at = cursor(slice, lane);
      if (at.next == lane_length(lane)) continue;
      const uint32_t index = schedule_->lane_begin[lane] + at.next;
      see(Instance{index, slice, lane}, schedule_->steps[index]);
    }
}

}  // namespace rondo
