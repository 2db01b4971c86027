#include "sched/builder.h"

#include <utility>

#include "base/check.h"

namespace rondo {

Builder::Builder(const Shape& shape, Rank me) : shape_(shape), me_(me), lanes_(shape.lanes) {
  RONDO_CHECK(me < shape.world && shape.lanes >= 1 && shape.lanes <= 255 && shape.chunks >= 1);
}

Builder& Builder::lane(uint32_t index) {
  RONDO_CHECK(index < lanes_.size());
  lane_ = index;
  return *this;
}

Builder& Builder::wait(uint32_t lane, uint32_t steps) {
  RONDO_CHECK(lane < lanes_.size() && wait_step_ == 0);
  wait_lane_ = static_cast<uint8_t>(lane);
  wait_step_ = steps;
  return *this;
}

At Builder::new_scratch(uint32_t chunk) {
  scratch_.push_back(chunk);
  return scratch(static_cast<uint32_t>(scratch_.size() - 1));
}

Builder& Builder::push(Step step) {
  step.wait_lane = std::exchange(wait_lane_, 0);
  step.wait_step = std::exchange(wait_step_, 0);
  lanes_[lane_].push_back(step);
  return *this;
}

Builder& Builder::copy_send(At from, At dst, Peers to) {
  return push({.verbs = static_cast<uint8_t>(kStore | (to.empty() ? 0 : kSend)),
               .src_place = from.place,
               .dst_place = dst.place,
               .src_chunk = from.chunk,
               .dst_chunk = dst.chunk,
               .to = peers_.add(to)});
}

Builder& Builder::send(At source, Peers to) {
  if (to.empty()) return *this;
  return push({.verbs = kSend, .src_place = source.place, .src_chunk = source.chunk, .to = peers_.add(to)});
}

Builder& Builder::recv(uint32_t from, At dst) { return recv_send(from, dst, {}); }

Builder& Builder::recv_send(uint32_t from, At dst, Peers to) {
  return push({.verbs = static_cast<uint8_t>(kRecv | kStore | (to.empty() ? 0 : kSend)),
               .dst_place = dst.place,
               .dst_chunk = dst.chunk,
               .from = peers_.add(Peers(&from, 1)),
               .to = peers_.add(to)});
}

Builder& Builder::forward(uint32_t from, At size_of, Peers to) {
  return push({.verbs = static_cast<uint8_t>(kRecv | (to.empty() ? 0 : kSend)),
               .src_place = size_of.place,
               .src_chunk = size_of.chunk,
               .from = peers_.add(Peers(&from, 1)),
               .to = peers_.add(to)});
}

Builder& Builder::drop(uint32_t from, At size_of) { return forward(from, size_of, {}); }

Builder& Builder::idle() { return push({}); }

Builder& Builder::reduce_store(const Reduce& reduce, At dst) { return reduce_store_send(reduce, dst, {}); }

Builder& Builder::reduce_send(const Reduce& reduce, Peers to) {
  return push({.verbs = static_cast<uint8_t>(kRecv | kReduce | kSend),
               .src_place = reduce.own.place,
               .src_chunk = reduce.own.chunk,
               .from = peers_.add(reduce.operands),
               .to = peers_.add(to),
               .flags = reduce.final ? kFinal : 0u});
}

Builder& Builder::reduce_store_send(const Reduce& reduce, At dst, Peers to) {
  return push({.verbs = static_cast<uint8_t>(kRecv | kReduce | kStore | (to.empty() ? 0 : kSend)),
               .src_place = reduce.own.place,
               .dst_place = dst.place,
               .src_chunk = reduce.own.chunk,
               .dst_chunk = dst.chunk,
               .from = peers_.add(reduce.operands),
               .to = peers_.add(to),
               .flags = reduce.final ? kFinal : 0u});
}

Schedule Builder::finish() && {
  Schedule schedule;
  schedule.collective = shape_.collective;
  schedule.world = shape_.world;
  schedule.rank = me_;
  schedule.root = shape_.root;
  schedule.chunks = shape_.chunks;
  schedule.lanes = shape_.lanes;
  for (const auto& lane : lanes_) {
    schedule.lane_begin.push_back(static_cast<uint32_t>(schedule.steps.size()));
    schedule.steps.insert(schedule.steps.end(), lane.begin(), lane.end());
  }
  schedule.lane_begin.push_back(static_cast<uint32_t>(schedule.steps.size()));
  schedule.peers = std::move(peers_).take();
  schedule.scratch = std::move(scratch_);
  order_peers(schedule);  // lanes may have been written in turns
  return schedule;
}

}  // namespace rondo
