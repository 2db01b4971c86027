// Schedules that have been generated for one communicator, by what they depend on: algorithm, lanes, root. Counts do
// not matter, so a few entries serve for ever. Progress-lease holder only.
#pragma once

#include <list>

#include "algo/registry.h"
#include "sched/schedule.h"

namespace rondo {

class ScheduleCache {
 public:
  // The reference stays valid as long as the cache.
  const Schedule& get(const Algorithm& algorithm, const Shape& wanted, Rank rank) {
    for (const Entry& entry : entries_)
      if (entry.algorithm == &algorithm && entry.lanes == wanted.lanes && entry.root == wanted.root)
        return entry.schedule;
    Shape shape = wanted;
    shape.chunks = algorithm.chunks(shape.world, shape.lanes);
    entries_.push_front({&algorithm, wanted.lanes, wanted.root, algorithm.generate(shape, rank)});
    return entries_.front().schedule;
  }

 private:
  struct Entry {
    const Algorithm* algorithm;
    uint32_t lanes, root;
    Schedule schedule;
  };
  std::list<Entry> entries_;
};

}  // namespace rondo
