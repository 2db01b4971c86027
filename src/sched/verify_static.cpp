#include <algorithm>
#include <map>
#include <vector>

#include "sched/dump.h"
#include "sched/verify.h"
#include "sched/verify_buffers.h"
#include "sched/walker.h"

namespace rondo {
namespace {

class Structure {
 public:
  explicit Structure(const Schedule& schedule) : s_(schedule), seen_(schedule.world, 0) {}

  Status check() {
    RONDO_TRY(check_header());
    for (uint32_t lane = 0; lane < s_.lanes; ++lane)
      for (uint32_t at = s_.lane_begin[lane]; at < s_.lane_begin[lane + 1]; ++at) {
        lane_ = lane;
        at_ = at;
        RONDO_TRY(check_step(s_.steps[at]));
      }
    return {};
  }

  static Status check_shape(const Schedule& s) {
    if (s.world == 0 || s.rank >= s.world) return fail(Code::invalid, "rank {} in a world of {}", s.rank, s.world);
    if (static_cast<uint32_t>(s.collective) >= kCollectiveCount)
      return fail(Code::invalid, "rank {}: collective {} does not exist", s.rank, static_cast<uint32_t>(s.collective));
    if (s.root >= s.world) return fail(Code::invalid, "rank {}: root {} in a world of {}", s.rank, s.root, s.world);
    if (s.lanes == 0 || s.lanes > 255) return fail(Code::invalid, "rank {}: {} lanes, not 1 to 255", s.rank, s.lanes);
    if (s.chunks == 0) return fail(Code::invalid, "rank {}: no chunks", s.rank);
    if (in_blocks(s.collective) && s.chunks % s.world != 0)
      return fail(Code::invalid, "rank {}: {} chunks are not a multiple of the world of {}", s.rank, s.chunks, s.world);
    return {};
  }

 private:
  Status check_header() {
    RONDO_TRY(check_shape(s_));
    if (s_.lane_begin.size() != s_.lanes + 1u || s_.lane_begin.front() != 0 ||
        s_.lane_begin.back() != s_.steps.size() || !std::is_sorted(s_.lane_begin.begin(), s_.lane_begin.end()))
      return fail(Code::invalid, "rank {}: lane_begin does not divide {} steps into {} lanes", s_.rank, s_.steps.size(),
                  s_.lanes);
    if (s_.peers.empty() || s_.peers[0] != 0) return fail(Code::invalid, "rank {}: peers[0] is not 0", s_.rank);
    for (size_t i = 0; i < s_.scratch.size(); ++i)
      if (s_.scratch[i] >= s_.chunks)
        return fail(Code::invalid, "rank {}: scratch {} has the size of chunk {} of {}", s_.rank, i, s_.scratch[i],
                    s_.chunks);
    return {};
  }

  template <class... Args>
  Status wrong(fmt::format_string<Args...> format, Args&&... args) const {
    return fail(Code::invalid, "rank {} lane {} step {} ({}): {}", s_.rank, lane_, at_ - s_.lane_begin[lane_],
                describe(s_, s_.steps[at_]), fmt::format(format, std::forward<Args>(args)...));
  }

  Status check_step(const Step& step) {
    if (step.verbs > (kRecv | kReduce | kStore | kSend)) return wrong("verbs {:#x} do not exist", step.verbs);
    if (has(step, kReduce) && !has(step, kRecv)) return wrong("a reduction that receives nothing");
    if ((step.flags & ~static_cast<uint32_t>(kFinal)) != 0) return wrong("flags {:#x} do not exist", step.flags);
    if (step.flags != 0 && !has(step, kReduce)) return wrong("final without a reduction");
    if (step.reserved != 0) return wrong("reserved is {}, not 0", step.reserved);
    RONDO_TRY(check_list(step.from, has(step, kRecv), has(step, kReduce)));
    RONDO_TRY(check_list(step.to, has(step, kSend), false));
    if (has(step, kReduce) && s_.list(step.from).size() < 2) return wrong("a reduction of one operand");
    if (has(step, kReduce) && !std::is_sorted(s_.list(step.from).begin(), s_.list(step.from).end()))
      return wrong("operands that are not in rank order");
    if (has(step, kRecv) && !has(step, kReduce) && s_.list(step.from).size() != 1)
      return wrong("receives one value from {} ranks", s_.list(step.from).size());
    RONDO_TRY(check_wait(step));
    RONDO_TRY(check_places(step));
    return check_meaning(step);
  }

  Status check_list(uint32_t offset, bool wanted, bool may_name_me) {
    if ((offset != 0) != wanted) return wrong("a list of ranks {}", wanted ? "is missing" : "without a use");
    if (offset == 0) return {};
    if (offset >= s_.peers.size() || s_.peers[offset] == 0 || s_.peers[offset] > s_.peers.size() - offset - 1)
      return wrong("a list of ranks at {} leaves the {} entries", offset, s_.peers.size());
    ++stamp_;
    for (const uint32_t rank : s_.list(offset)) {
      if (rank >= s_.world) return wrong("names rank {} in a world of {}", rank, s_.world);
      if (rank == s_.rank && !may_name_me) return wrong("sends to or receives from itself");
      if (seen_[rank] == stamp_) return wrong("names rank {} twice", rank);
      seen_[rank] = stamp_;
    }
    return {};
  }

  Status check_wait(const Step& step) const {
    if (step.wait_step == 0) return step.wait_lane == 0 ? Status() : wrong("wait_lane without wait_step");
    if (step.wait_lane >= s_.lanes) return wrong("waits for lane {} of {}", step.wait_lane, s_.lanes);
    if (step.wait_lane == lane_) return wrong("waits for its own lane");
    const size_t length = s_.lane(step.wait_lane).size();
    if (step.wait_step > length)
      return wrong("waits for {} steps of lane {}, which has {}", step.wait_step, step.wait_lane, length);
    return {};
  }

  Status check_place(Place place, uint32_t chunk) const {
    if (place > Place::scratch) return wrong("place {} does not exist", static_cast<uint32_t>(place));
    const size_t count = place == Place::scratch ? s_.scratch.size() : s_.chunks;
    if (chunk >= count) return wrong("chunk {} of {}", chunk, count);
    return {};
  }

  Status check_places(const Step& step) const {
    const bool reads = reads_source(s_, step), writes = has(step, kStore);
    if (reads || (step.verbs != 0 && !writes)) {
      RONDO_TRY(check_place(step.src_place, step.src_chunk));
    } else if (step.src_place != Place::input || step.src_chunk != 0) {
      return wrong("a source that nothing uses");
    }
    if (!writes) {
      if (step.dst_place != Place::output || step.dst_chunk != 0) return wrong("a destination that nothing uses");
      return {};
    }
    return check_place(step.dst_place, step.dst_chunk);
  }

  Status check_meaning(const Step& step) const {
    if (s_.collective == Collective::barrier && (step.verbs & (kReduce | kStore)) != 0)
      return wrong("a barrier has no data");
    if (has(step, kReduce) && !reduces(s_.collective)) return wrong("{} reduces nothing", name(s_.collective));
    if (has(step, kStore)) {
      if (step.dst_place == Place::input) return wrong("writes the input");
      if (step.dst_place == Place::output && !has_output(s_, step.dst_chunk))
        return wrong("writes output chunk {}, which rank {} does not have", step.dst_chunk, s_.rank);
    }
    if (!reads_source(s_, step)) return {};
    if (step.src_place == Place::input && !has_input(s_, step.src_chunk))
      return wrong("reads input chunk {}, which rank {} does not have", step.src_chunk, s_.rank);
    if (step.src_place == Place::output && !has_output(s_, step.src_chunk))
      return wrong("reads output chunk {}, which rank {} does not have", step.src_chunk, s_.rank);
    return {};
  }

  const Schedule& s_;
  std::vector<uint32_t> seen_;
  uint32_t stamp_ = 0;
  uint32_t lane_ = 0, at_ = 0;
};

// What happens before what on one rank: clocks_[step * lanes + l] is the number of steps of lane l known to have
// retired before the step runs.
class Order {
 public:
  explicit Order(const Schedule& schedule) : s_(schedule), clocks_(schedule.steps.size() * schedule.lanes, 0) {}

  Status build() {
    std::vector<uint32_t> next(s_.lanes, 0);
    for (bool moved = true; moved;) {
      moved = false;
      for (uint32_t lane = 0; lane < s_.lanes; ++lane)
        while (next[lane] < s_.lane(lane).size() && ready(next, lane)) {
          set(lane, next[lane]);
          ++next[lane];
          moved = true;
        }
    }
    for (uint32_t lane = 0; lane < s_.lanes; ++lane)
      if (next[lane] < s_.lane(lane).size())
        return fail(Code::invalid, "rank {} lane {} step {} ({}): waits in a circle", s_.rank, lane, next[lane],
                    describe(s_, s_.lane(lane)[next[lane]]));
    return {};
  }

  uint32_t clock(uint32_t lane, uint32_t at, uint32_t other) const {
    return clocks_[(s_.lane_begin[lane] + at) * static_cast<size_t>(s_.lanes) + other];
  }

 private:
  bool ready(const std::vector<uint32_t>& next, uint32_t lane) const {
    const Step& step = s_.lane(lane)[next[lane]];
    return step.wait_step == 0 || next[step.wait_lane] >= step.wait_step;
  }
  uint32_t* row(uint32_t lane, uint32_t at) {
    return clocks_.data() + (s_.lane_begin[lane] + at) * static_cast<size_t>(s_.lanes);
  }
  void set(uint32_t lane, uint32_t at) {
    const Step& step = s_.lane(lane)[at];
    uint32_t* const mine = row(lane, at);
    const auto merge = [&](uint32_t other_lane, uint32_t steps) {
      const uint32_t* const other = row(other_lane, steps - 1);
      for (uint32_t l = 0; l < s_.lanes; ++l) mine[l] = std::max(mine[l], other[l]);
      mine[other_lane] = std::max(mine[other_lane], steps);
    };
    if (at > 0) merge(lane, at);
    if (step.wait_step != 0) merge(step.wait_lane, step.wait_step);
  }

  const Schedule& s_;
  std::vector<uint32_t> clocks_;
};

struct Access {
  uint32_t lane, at;
  bool writes;
};

std::map<uint64_t, std::vector<Access>> accesses(const Schedule& s, bool in_place) {
  std::map<uint64_t, std::vector<Access>> by_cell;
  const auto cell = [&](Place place, uint32_t chunk) {
    if (in_place && place == Place::output) place = Place::input;
    return static_cast<uint64_t>(place) << 32 | chunk;
  };
  for (uint32_t lane = 0; lane < s.lanes; ++lane)
    for (uint32_t at = 0; at < s.lane(lane).size(); ++at) {
      const Step& step = s.lane(lane)[at];
      if (reads_source(s, step)) by_cell[cell(step.src_place, step.src_chunk)].push_back({lane, at, false});
      if (has(step, kStore)) by_cell[cell(step.dst_place, step.dst_chunk)].push_back({lane, at, true});
    }
  return by_cell;
}

}  // namespace

Status check_structure(const Schedule& schedule) {
  RONDO_TRY(Structure::check_shape(schedule));
  return Structure(schedule).check();
}

// For a write and another lane, only that lane's first access that is not before the write can be unordered: when the
// write is before that one, it is before all later ones.
Status check_races(const Schedule& s, bool in_place) {
  Order order(s);
  RONDO_TRY(order.build());
  for (const auto& [cell, list] : accesses(s, in_place)) {
    for (const Access& write : list) {
      if (!write.writes) continue;
      for (uint32_t lane = 0; lane < s.lanes; ++lane) {
        if (lane == write.lane) continue;
        const uint32_t before = order.clock(write.lane, write.at, lane);
        const auto other = std::partition_point(list.begin(), list.end(), [&](const Access& a) {
          return a.lane < lane || (a.lane == lane && a.at < before);
        });
        if (other == list.end() || other->lane != lane) continue;
        if (order.clock(other->lane, other->at, write.lane) > write.at) continue;
        return fail(Code::invalid,
                    "rank {}: lane {} step {} ({}) and lane {} step {} ({}) touch one chunk in any order", s.rank,
                    write.lane, write.at, describe(s, s.lane(write.lane)[write.at]), lane, other->at,
                    describe(s, s.lane(lane)[other->at]));
      }
    }
  }
  return {};
}

}  // namespace rondo
