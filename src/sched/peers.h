// PeerPool: the rank lists of one Schedule in one vector, equal lists stored once. Adding the lists of the same steps
// in the same order gives the same vector, so that Schedules can be compared by value however they were made.
#pragma once

#include <cstdint>
#include <span>
#include <unordered_map>
#include <utility>
#include <vector>

#include "sched/schedule.h"

namespace rondo {

class PeerPool {
 public:
  // The offset of `list`; 0 for an empty one.
  uint32_t add(std::span<const uint32_t> list) {
    if (list.empty()) return 0;
    uint64_t hash = list.size();
    for (const uint32_t rank : list) hash = (hash ^ rank) * 0x9e3779b97f4a7c15u + (hash >> 29);
    const auto [first, last] = known_.equal_range(hash);
    for (auto it = first; it != last; ++it)
      if (equal(it->second, list)) return it->second;
    const uint32_t offset = static_cast<uint32_t>(peers_.size());
    peers_.push_back(static_cast<uint32_t>(list.size()));
    peers_.insert(peers_.end(), list.begin(), list.end());
    known_.emplace(hash, offset);
    return offset;
  }
  std::vector<uint32_t> take() && { return std::move(peers_); }

 private:
  bool equal(uint32_t offset, std::span<const uint32_t> list) const {
    if (peers_[offset] != list.size()) return false;
    for (size_t i = 0; i < list.size(); ++i)
      if (peers_[offset + 1 + i] != list[i]) return false;
    return true;
  }

  std::vector<uint32_t> peers_{0};
  std::unordered_multimap<uint64_t, uint32_t> known_;
};

// Lays the lists out in the order of the steps. The lists must be in bounds.
inline void order_peers(Schedule& schedule) {
  PeerPool pool;
  for (Step& step : schedule.steps) {
    step.from = pool.add(schedule.list(step.from));
    step.to = pool.add(schedule.list(step.to));
  }
  schedule.peers = std::move(pool).take();
}

}  // namespace rondo
