// The verifier is itself tested: schedules are broken in one place, and every break that changes the meaning must be
// found. What the verifier lets pass must be harmless by a second judgement that knows nothing of the verifier: ranks
// that run the mutant with numbers, in many orders, end with the right result in all of them. Survivors are counted by
// kind with the reason; one that is not harmless fails the test.
#include <catch2/catch.hpp>

#include <algorithm>
#include <deque>
#include <map>
#include <random>
#include <string>
#include <vector>

#include "algo/registry.h"
#include "sched/peers.h"
#include "sched/verify.h"
#include "sched/walker.h"

using namespace rondo;

namespace {

using Key = std::pair<uint32_t, uint32_t>;  // place, chunk

// What a value is in numbers: for reductions the sum of 4^(rank * 1) per chunk; else where it comes from.
struct Value {
  std::map<std::pair<Rank, uint32_t>, int> parts;  // (rank, chunk): how often
  bool finished = false;                           // passed a step marked final
  bool operator==(const Value&) const = default;
};

// Runs all ranks with an order drawn from `seed`; false when stuck, or a value that does not exist is read.
class Numbers {
 public:
  // `absent` (if below the world) never starts.
  Numbers(const std::vector<Schedule>& all, bool in_place, uint64_t seed, Rank absent = UINT32_MAX)
      : all_(all), in_place_(in_place), random_(seed), absent_(absent), memory_(all.size()) {
    for (const Schedule& s : all_)
      for (uint32_t chunk = 0; chunk < s.chunks; ++chunk)
        store(s.rank, Place::input, chunk, {.parts = {{{s.rank, chunk}, 1}}});
    for (const Schedule& s : all_) walkers_.emplace_back(s, Walker::Options{.in_place = in_place});
  }

  bool run() {
    std::vector<size_t> order(all_.size());
    for (size_t i = 0; i < order.size(); ++i) order[i] = i;
    for (int still = 0; still < 60;) {
      std::shuffle(order.begin(), order.end(), random_);
      bool moved = false;
      for (const size_t rank : order)
        if (rank != absent_)
          moved |= walkers_[rank].advance(
              [&](const Instance& at, const Step& step) { return step_of(all_[rank], at, step); });
      if (broken_) return false;
      still = moved ? 0 : still + 1;
    }
    const bool done = std::all_of(walkers_.begin(), walkers_.end(), [](const Walker& w) { return w.complete(); });
    const bool empty = std::all_of(streams_.begin(), streams_.end(), [](const auto& s) { return s.second.empty(); });
    return done && empty && right();
  }

  // Whether any rank but the absent one has ended.
  bool somebody_left() const {
    for (size_t rank = 0; rank < walkers_.size(); ++rank)
      if (rank != absent_ && walkers_[rank].complete()) return true;
    return false;
  }

 private:
  Outcome step_of(const Schedule& s, const Instance& at, const Step& step) {
    if (broken_ || random_() % 3 == 0) return Outcome::blocked;
    Value value;
    if (has(step, kRecv)) {
      const auto from = s.list(step.from);
      for (const uint32_t rank : from)
        if (rank != s.rank && streams_[{{rank, s.rank}, at.lane}].empty()) return Outcome::blocked;
      if (from.empty()) broken_ = true;
      for (const uint32_t rank : from) {
        Value part;
        if (rank == s.rank) {
          part = load(s.rank, step.src_place, step.src_chunk);
        } else {
          auto& stream = streams_[{{rank, s.rank}, at.lane}];
          part = stream.front();
          stream.pop_front();
        }
        for (const auto& [origin, times] : part.parts) value.parts[origin] += times;
        value.finished = value.finished || part.finished;
      }
      if (has(step, kReduce) && (step.flags & kFinal) != 0) {
        broken_ = broken_ || value.finished;
        value.finished = true;
      }
    } else if (step.verbs != 0) {
      value = load(s.rank, step.src_place, step.src_chunk);
    }
    if (has(step, kStore)) store(s.rank, step.dst_place, step.dst_chunk, value);
    if (has(step, kSend))
      for (const uint32_t rank : s.list(step.to)) streams_[{{s.rank, rank}, at.lane}].push_back(value);
    return Outcome::done;
  }

  Key key(Place place, uint32_t chunk) const {
    if (in_place_ && place == Place::output) place = Place::input;
    return {static_cast<uint32_t>(place), chunk};
  }
  Value load(Rank rank, Place place, uint32_t chunk) {
    const auto found = memory_[rank].find(key(place, chunk));
    if (found == memory_[rank].end()) {
      broken_ = true;
      return {};
    }
    return found->second;
  }
  void store(Rank rank, Place place, uint32_t chunk, const Value& value) { memory_[rank][key(place, chunk)] = value; }

  bool right() {
    const Schedule& first = all_[0];
    const uint32_t world = first.world;
    for (const Schedule& s : all_) {
      if (s.collective == Collective::reduce && s.rank != s.root) continue;
      for (uint32_t chunk = 0; chunk < s.chunks; ++chunk) {
        Value wanted;
        const uint32_t per = std::max(1u, s.chunks / world), block = chunk / per;
        switch (s.collective) {
          case Collective::reduce_scatter:
            if (block != s.rank) continue;
            [[fallthrough]];
          case Collective::allreduce:
          case Collective::reduce:
            for (Rank r = 0; r < world; ++r) wanted.parts[{r, chunk}] = 1;
            wanted.finished = world > 1;
            break;
          case Collective::broadcast:
            if (s.rank == s.root) continue;
            wanted.parts[{s.root, chunk}] = 1;
            break;
          case Collective::allgather:
            wanted.parts[{block, chunk}] = 1;
            break;
          case Collective::gather:
            if (s.rank != s.root) continue;
            wanted.parts[{block, chunk}] = 1;
            break;
          case Collective::scatter:
            if (block != s.rank) continue;
            wanted.parts[{s.root, chunk}] = 1;
            break;
          case Collective::alltoall:
            wanted.parts[{block, s.rank * per + chunk % per}] = 1;
            break;
          case Collective::barrier:
            continue;
        }
        if (!(load(s.rank, Place::output, chunk) == wanted) || broken_) return false;
      }
    }
    return true;
  }

  const std::vector<Schedule>& all_;
  bool in_place_;
  std::mt19937_64 random_;
  Rank absent_;
  bool broken_ = false;
  std::vector<std::map<Key, Value>> memory_;
  std::map<std::pair<std::pair<Rank, Rank>, uint32_t>, std::deque<Value>> streams_;
  std::vector<Walker> walkers_;
};

bool proven(const std::vector<Schedule>& all, bool in_place) {
  for (const uint32_t slices : {1u, 3u})
    if (!verify(all, {.window = 2, .slices = slices, .operations_in_flight = 2, .in_place = in_place}).ok())
      return false;
  return true;
}

// A peer list may be shared by several steps: the copy that this gives a step is its own.
uint32_t* own_list(Schedule& s, uint32_t* offset) {
  const std::vector<uint32_t> list(s.peers.begin() + *offset, s.peers.begin() + *offset + s.peers[*offset] + 1);
  *offset = static_cast<uint32_t>(s.peers.size());
  s.peers.insert(s.peers.end(), list.begin(), list.end());
  return s.peers.data() + *offset;
}

// One change to one rank's program; "" when this kind does not fit there.
std::string mutate(std::vector<Schedule>& all, std::mt19937_64& random) {
  Schedule& s = all[random() % all.size()];
  if (s.steps.empty()) return "";
  const uint32_t lane = static_cast<uint32_t>(random() % s.lanes);
  const uint32_t begin = s.lane_begin[lane], end = s.lane_begin[lane + 1];
  if (begin == end) return "";
  const uint32_t at = begin + static_cast<uint32_t>(random() % (end - begin));
  Step& step = s.steps[at];
  const auto shift = [&](int by) {
    for (uint32_t i = lane + 1; i < s.lane_begin.size(); ++i)
      s.lane_begin[i] = static_cast<uint32_t>(static_cast<int>(s.lane_begin[i]) + by);
  };
  switch (random() % 12) {
    case 0:
      s.steps.erase(s.steps.begin() + at);
      shift(-1);
      return "drop a step";
    case 1:
      s.steps.insert(s.steps.begin() + at, Step(step));
      shift(1);
      return "repeat a step";
    case 2:
      if (at + 1 == end || s.steps[at] == s.steps[at + 1]) return "";
      std::swap(s.steps[at], s.steps[at + 1]);
      return "swap two steps";
    case 3:
      if (s.chunks < 2) return "";
      step.src_chunk = (step.src_chunk + 1) % s.chunks;
      return "change the source chunk";
    case 4:
      if (s.chunks < 2 || !has(step, kStore)) return "";
      step.dst_chunk = (step.dst_chunk + 1) % s.chunks;
      return "change the destination chunk";
    case 5:
      step.verbs ^= static_cast<uint8_t>(1u << random() % 4);
      return "flip a verb";
    case 6:
      step.src_place = step.src_place == Place::input ? Place::output : Place::input;
      return "change the source place";
    case 7:
      if (!has(step, kStore)) return "";
      step.dst_place = step.dst_place == Place::output ? Place::input : Place::output;
      return "change the destination place";
    case 8:
      if (!has(step, kReduce)) return "";
      step.flags ^= kFinal;
      return "flip the final mark";
    case 9: {
      uint32_t* offset = step.from != 0 && random() % 2 == 0 ? &step.from : &step.to;
      if (*offset == 0 || all.size() < 3) return "";
      uint32_t* list = own_list(s, offset);
      list[1 + random() % list[0]] = static_cast<uint32_t>(random() % all.size());
      return "change a peer";
    }
    case 10: {
      if (step.from == 0 || s.peers[step.from] < 2) return "";
      uint32_t* list = own_list(s, &step.from);
      std::swap(list[1], list[list[0]]);
      return "change the order of operands";
    }
    default:
      if (step.wait_step != 0) {
        step.wait_step = 0;
        return "drop a wait";
      }
      step.wait_lane = static_cast<uint8_t>(random() % s.lanes);
      step.wait_step = 1 + static_cast<uint32_t>(random() % 4);
      return "add a wait";
  }
}

// With peer lists laid out alike, equal programs are equal values.
std::vector<Schedule> laid_out(std::vector<Schedule> all) {
  for (Schedule& schedule : all) order_peers(schedule);
  return all;
}

// Why a survivor may live, or "" when it may not. No reason is given without running it in many orders.
std::string harmless(const std::vector<Schedule>& original, const std::vector<Schedule>& mutant, bool in_place,
                     const std::string& kind) {
  if (laid_out(mutant) == original) return "nothing was changed";
  for (uint64_t seed = 1; seed <= 12; ++seed)
    if (!Numbers(mutant, in_place, seed).run()) return "";
  if (original[0].collective == Collective::barrier)
    for (Rank absent = 0; absent < mutant.size(); ++absent) {
      Numbers numbers(mutant, in_place, absent + 1, absent);
      numbers.run();
      if (numbers.somebody_left()) return "";
    }
  static const std::map<std::string, std::string> kReasons = {
      {"swap two steps", "steps that do not depend on each other may run in any order"},
      {"repeat a step", "copying a chunk again changes nothing"},
      {"change the source place", "the place names only a size, or the same chunk lies there"},
      {"change the destination place", "the sum is only passed on from there, or the same memory in place"},
      {"add a wait", "the awaited step comes first anyway"},
      {"drop a wait", "the awaited step comes first anyway"},
      {"flip a verb", "a copy that nobody reads"},
      {"change the destination chunk", "the sum is only passed on from there"},
      {"change the source chunk", "the chunk names only a size"},
      {"change a peer", "two ranks that may trade places"}};
  const auto reason = kReasons.find(kind);
  return reason == kReasons.end() ? "" : reason->second;
}

}  // namespace

TEST_CASE("verifier: broken schedules are found, over all algorithms") {
  std::mt19937_64 random(20240229);
  uint32_t mutants = 0, caught = 0;
  std::map<std::string, uint32_t> survivors;
  for (const Algorithm& algorithm : algorithms()) {
    if (algorithm.generate == nullptr) continue;
    for (const uint32_t world : {2u, 3u, 4u, 5u}) {
      const uint32_t lanes = algorithm.name == "tree" ? 2 : 1;
      std::vector<Schedule> original;
      for (Rank rank = 0; rank < world; ++rank)
        original.push_back(algorithm.generate({.collective = algorithm.collective,
                                               .world = world,
                                               .chunks = algorithm.chunks(world, lanes),
                                               .lanes = lanes,
                                               .root = world - 1},
                                              rank));
      const bool in_place = algorithm.collective == Collective::broadcast;
      INFO(name(algorithm.collective) << " " << algorithm.name << " world " << world);
      REQUIRE(proven(original, in_place));
      REQUIRE(Numbers(original, in_place, 1).run());
      for (int i = 0; i < 9;) {
        std::vector<Schedule> mutant = original;
        const std::string kind = mutate(mutant, random);
        if (kind.empty()) continue;
        ++i;
        ++mutants;
        if (!proven(mutant, in_place)) {
          ++caught;
          continue;
        }
        const std::string reason = harmless(original, mutant, in_place, kind);
        INFO("survivor: " << kind);
        CHECK(reason != "");
        ++survivors[kind + ": " + reason];
      }
    }
  }
  WARN("mutants: " << mutants << ", caught: " << caught);
  for (const auto& [what, times] : survivors) WARN(times << " survived, " << what);
  CHECK(mutants >= 500);
}
