#include "sched/walker.h"

namespace rondo {

void Walker::reset(const Schedule& schedule, const Options& options) {
  RONDO_CHECK(options.slices >= 1 && options.window >= 1);
  schedule_ = &schedule;
  options_ = options;
  if (options_.window > options_.slices) options_.window = options_.slices;
  oldest_ = 0;
  retired_ = 0;
  cursors_.assign(static_cast<size_t>(options_.window) * schedule.lanes, Cursor{});
  unretired_.assign(options_.window, static_cast<uint32_t>(schedule.steps.size()));
  busy_.clear();
  busy_.reserve(16);
  close_slices();
}

bool Walker::same_memory(Place a, uint32_t chunk_a, Place b, uint32_t chunk_b) const {
  if (chunk_a != chunk_b) return false;
  if (a == b) return true;
  return options_.in_place && a != Place::scratch && b != Place::scratch;
}

bool Walker::hazard(const Step& step, uint32_t slice) const {
  const bool writes = has(step, kStore);
  const bool reads = reads_source(*schedule_, step);
  for (const Busy& busy : busy_) {
    if (busy.instance.slice != slice) continue;
    const Step& other = schedule_->steps[busy.instance.step];
    if (writes && busy.reads_src && same_memory(step.dst_place, step.dst_chunk, other.src_place, other.src_chunk))
      return true;
    if (writes && (busy.reads_dst || busy.writes_dst) &&
        same_memory(step.dst_place, step.dst_chunk, other.dst_place, other.dst_chunk))
      return true;
    if (reads && busy.writes_dst && same_memory(step.src_place, step.src_chunk, other.dst_place, other.dst_chunk))
      return true;
  }
  return false;
}

void Walker::retire(const Instance& instance) {
  Cursor& at = cursor(instance.slice, instance.lane);
  ++at.next;
  at.pending = false;
  ++retired_;
  --unretired_[instance.slice % options_.window];
}

// A slice is complete when all its steps have retired and no send reads from it any more (its stream and its scratch
// are used again by slice + window).
void Walker::close_slices() {
  while (oldest_ < options_.slices && unretired_[oldest_ % options_.window] == 0) {
    for (const Busy& busy : busy_)
      if (busy.instance.slice == oldest_) return;
    for (uint32_t lane = 0; lane < schedule_->lanes; ++lane) cursor(oldest_, lane) = Cursor{};
    unretired_[oldest_ % options_.window] = static_cast<uint32_t>(schedule_->steps.size());
    ++oldest_;
  }
}

void Walker::finished(const Instance& instance, bool still_sending) {
  for (size_t i = 0; i < busy_.size(); ++i) {
    if (!(busy_[i].instance == instance)) continue;
    const bool stored = has(schedule_->steps[instance.step], kStore);
    if (still_sending) {
      busy_[i] = {instance, !stored, stored, false};
    } else {
      busy_[i] = busy_.back();
      busy_.pop_back();
    }
    retire(instance);
    close_slices();
    return;
  }
  RONDO_CHECK(!"finished() names an instance that is not pending");
}

void Walker::sent(const Instance& instance) {
  for (size_t i = 0; i < busy_.size(); ++i) {
    if (!(busy_[i].instance == instance)) continue;
    busy_[i] = busy_.back();
    busy_.pop_back();
    close_slices();
    return;
  }
  RONDO_CHECK(!"sent() names an instance that sends nothing");
}

}  // namespace rondo
