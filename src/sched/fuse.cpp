#include "sched/fuse.h"

#include <algorithm>
#include <optional>

#include "sched/peers.h"

namespace rondo {
namespace {

// The lists of a step are kept beside it while they change.
struct Draft {
  Step step;
  std::vector<uint32_t> from, to;
  uint32_t first = 0;  // index in its lane before fusing
};

// Whether `writer` may change (place, chunk); in place, input and output are one.
bool may_overwrite(const Step& writer, Place place, uint32_t chunk) {
  if (!has(writer, kStore) || writer.dst_chunk != chunk) return false;
  return (writer.dst_place == Place::scratch) == (place == Place::scratch);
}

bool disjoint(const std::vector<uint32_t>& a, const std::vector<uint32_t>& b) {
  return std::none_of(a.begin(), a.end(),
                      [&](uint32_t rank) { return std::find(b.begin(), b.end(), rank) != b.end(); });
}

// Whether `send` sends what `before` has just stored or sent.
bool continues(const Draft& before, const Draft& send) {
  const Step& a = before.step;
  const Step& b = send.step;
  const bool stored = has(a, kStore) && a.dst_place == b.src_place && a.dst_chunk == b.src_chunk;
  const bool sent = a.verbs == kSend && a.src_place == b.src_place && a.src_chunk == b.src_chunk;
  return (stored || sent) && disjoint(before.to, send.to);
}

// The draft that `send` may join, looking back over copies.
std::optional<size_t> partner(const std::vector<Draft>& lane, const Draft& send) {
  if (send.step.verbs != kSend || send.step.wait_step != 0) return std::nullopt;
  for (size_t i = lane.size(); i > 0; --i) {
    if (continues(lane[i - 1], send)) return i - 1;
    const Step& between = lane[i - 1].step;
    if (between.verbs != kStore || between.wait_step != 0 ||
        may_overwrite(between, send.step.src_place, send.step.src_chunk))
      return std::nullopt;
  }
  return std::nullopt;
}

std::vector<Draft> fuse_lane(const Schedule& schedule, uint32_t lane) {
  std::vector<Draft> drafts;
  uint32_t index = 0;
  for (const Step& step : schedule.lane(lane)) {
    const auto from = schedule.list(step.from), to = schedule.list(step.to);
    Draft draft{step, {from.begin(), from.end()}, {to.begin(), to.end()}, index++};
    if (const std::optional<size_t> into = partner(drafts, draft)) {
      drafts[*into].step.verbs |= kSend;
      drafts[*into].to.insert(drafts[*into].to.end(), draft.to.begin(), draft.to.end());
    } else {
      drafts.push_back(std::move(draft));
    }
  }
  return drafts;
}

}  // namespace

Schedule fuse(const Schedule& schedule) {
  std::vector<std::vector<Draft>> lanes;
  for (uint32_t lane = 0; lane < schedule.lanes; ++lane) lanes.push_back(fuse_lane(schedule, lane));
  Schedule fused = schedule;
  fused.steps.clear();
  fused.lane_begin.clear();
  PeerPool peers;
  for (const auto& lane : lanes) {
    fused.lane_begin.push_back(static_cast<uint32_t>(fused.steps.size()));
    for (const Draft& draft : lane) {
      Step step = draft.step;
      step.from = peers.add(draft.from);
      step.to = peers.add(draft.to);
      if (step.wait_step != 0) {
        // As many steps as it takes to contain the first wait_step ones of before.
        const auto& other = lanes[step.wait_lane];
        step.wait_step = static_cast<uint32_t>(
            std::count_if(other.begin(), other.end(), [&](const Draft& d) { return d.first < draft.step.wait_step; }));
      }
      fused.steps.push_back(step);
    }
  }
  fused.lane_begin.push_back(static_cast<uint32_t>(fused.steps.size()));
  fused.peers = std::move(peers).take();
  return fused;
}

}  // namespace rondo
