// The verifier's errors: each rule is broken once by hand, and the text must name the rank, the step and the cause.
#include <catch2/catch.hpp>

#include <functional>
#include <string>
#include <vector>

#include "algo/registry.h"
#include "sched/builder.h"
#include "sched/verify.h"

using namespace rondo;
using Catch::Matchers::Contains;

namespace {

using List = std::vector<uint32_t>;

std::vector<Schedule> make(const Shape& shape, const std::function<void(Builder&)>& write) {
  std::vector<Schedule> all;
  for (Rank rank = 0; rank < shape.world; ++rank) {
    Builder build(shape, rank);
    write(build);
    all.push_back(std::move(build).finish());
  }
  return all;
}

std::string error_of(const std::vector<Schedule>& all, const VerifyOptions& options = {}) {
  return verify(all, options).text();
}

Shape allreduce(uint32_t world, uint32_t chunks = 1, uint32_t lanes = 1) {
  return {.collective = Collective::allreduce, .world = world, .chunks = chunks, .lanes = lanes};
}

List both(uint32_t a, uint32_t b) { return {a, b}; }

}  // namespace

TEST_CASE("verify: an exchange between two ranks is a proven allreduce out of place, and a deadlock in place") {
  const auto all = make(allreduce(2), [](Builder& b) {
    b.send(input(0), 1 - b.me()).reduce_store({.operands = both(0, 1), .own = input(0), .final = true}, output(0));
  });
  CHECK(error_of(all).empty());
  // Each would overwrite its input, which the other has not read yet.
  CHECK_THAT(error_of(all, {.in_place = true}), Contains("deadlock: 2 steps cannot run: rank 0 lane 0 step 1"));
}

TEST_CASE("verify: a rank that counts twice, or is missing, is named") {
  const auto twice = make(allreduce(2), [](Builder& b) {
    const List pair = both(0, 1);
    b.send(input(0), 1 - b.me()).send(input(0), 1 - b.me());
    const At sum = b.new_scratch(0);
    b.reduce_store({.operands = pair, .own = input(0), .final = true}, sum);
    b.reduce_store({.operands = pair, .own = sum, .final = true}, output(0));
  });
  CHECK_THAT(error_of(twice), Contains("lane 0 step 3") && Contains("counts rank 0 twice in chunk 0"));
  const auto missing = make(allreduce(2), [](Builder& b) { b.copy(input(0), output(0)); });
  CHECK_THAT(error_of(missing), Contains("rank 0: output chunk 0 slice 0 ends as chunk 0 of rank 0"));
}

TEST_CASE("verify: chunks of different numbers are not added, nor sent as one another") {
  const auto added = make(allreduce(2, 2), [](Builder& b) {
    b.send(input(1), 1 - b.me());
    b.reduce_store({.operands = both(0, 1), .own = input(0), .final = true}, output(0));
  });
  CHECK_THAT(error_of(added), Contains("takes chunk 1 of rank") && Contains("whose size may differ"));
}

TEST_CASE("verify: final stands exactly on complete sums") {
  const auto all = make(allreduce(2), [](Builder& b) {
    if (b.me() == 0) {
      b.reduce_store_send({.operands = both(0, 1), .own = input(0)}, output(0), List{1});
    } else {
      b.send(input(0), 0).recv(0, output(0));
    }
  });
  CHECK_THAT(error_of(all), Contains("makes the sum of 2 ranks of chunk 0, but is not marked final"));
}

TEST_CASE("verify: allreduce must be the same reduction tree on all ranks") {
  const auto all = make(allreduce(3), [](Builder& b) {
    b.send(input(0), b.me() == 0 ? both(1, 2) : both(0, 3 - b.me()));
    if (b.me() == 0) {
      const At sum = b.new_scratch(0);
      b.reduce_store({.operands = both(0, 1), .own = input(0)}, sum);
      b.reduce_store({.operands = both(0, 2), .own = sum, .final = true}, output(0));
    } else {
      b.reduce_store({.operands = List{0, 1, 2}, .own = input(0), .final = true}, output(0));
    }
  });
  CHECK_THAT(error_of(all), Contains("rank 1: output chunk 0 is added up in another order than on rank 0"));
}

TEST_CASE("verify: operands stand in rank order, never the own one first") {
  const auto all = make(allreduce(2), [](Builder& b) {
    b.send(input(0), 1 - b.me());
    b.reduce_store({.operands = both(b.me(), 1 - b.me()), .own = input(0), .final = true}, output(0));
  });
  CHECK_THAT(error_of(all), Contains("rank 1 lane 0 step 1") && Contains("not in rank order"));
}

TEST_CASE("verify: a circle of receptions is a deadlock that names its steps") {
  const auto all = make(allreduce(2), [](Builder& b) {
    b.reduce_store({.operands = both(0, 1), .own = input(0), .final = true}, output(0)).send(input(0), 1 - b.me());
  });
  CHECK_THAT(error_of(all), Contains("deadlock: 2 steps cannot run") && Contains("reduce [0* 1]"));
}

TEST_CASE("verify: sends that need more room than a stream has are a deadlock") {
  const auto all = make(allreduce(2, 3), [](Builder& b) {
    for (uint32_t c = 0; c < 3; ++c) b.send(input(c), 1 - b.me());
    for (uint32_t c = 0; c < 3; ++c)
      b.reduce_store({.operands = both(0, 1), .own = input(c), .final = true}, output(c));
  });
  CHECK_THAT(error_of(all), Contains("deadlock"));
}

TEST_CASE("verify: a message that nobody takes is found") {
  const auto all = make({.collective = Collective::broadcast, .world = 2}, [](Builder& b) {
    if (b.me() == 0) {
      b.copy_send(input(0), output(0), List{1}).send(input(0), 1);
    } else {
      b.recv(0, output(0));
    }
  });
  CHECK_THAT(error_of(all), Contains("never received"));
}

TEST_CASE("verify: reading what was never written is found") {
  const auto all = make(allreduce(2), [](Builder& b) { b.copy(output(0), output(0)); });
  CHECK_THAT(error_of(all), Contains("reads a chunk that holds nothing"));
}

TEST_CASE("verify: two lanes that touch one chunk without an order race, whatever order a run takes") {
  const auto write = [](bool ordered) {
    return make(allreduce(1, 2, 2), [ordered](Builder& b) {
      b.lane(0).copy(input(0), output(0)).copy(input(1), output(1)).lane(1);
      if (ordered) b.wait(0, 1);
      b.copy(output(0), output(0));
    });
  };
  CHECK(error_of(write(true)).empty());
  CHECK_THAT(error_of(write(false)), Contains("rank 0: lane") && Contains("touch one chunk in any order"));
}

TEST_CASE("verify: waits in a circle are found") {
  const auto all = make(allreduce(1, 2, 2), [](Builder& b) {
    b.lane(0).wait(1, 1).copy(input(0), output(0)).lane(1).wait(0, 1).copy(input(1), output(1));
  });
  CHECK_THAT(error_of(all), Contains("waits in a circle"));
}

TEST_CASE("verify: alltoall blocks may not be passed on, since nobody in between knows their size") {
  const auto all = make({.collective = Collective::alltoall, .world = 3, .chunks = 3}, [](Builder& b) {
    const Rank next = (b.me() + 1) % 3, before = (b.me() + 2) % 3;
    b.copy(input(b.me()), output(b.me())).send(input(next), next).recv(before, output(before));
    b.send(input(before), next).forward(before, input(next), List{next}).recv(before, output(next));
  });
  CHECK_THAT(error_of(all), Contains("whose size may differ"));
}

TEST_CASE("verify: a barrier that one rank may leave early is found") {
  const auto all = make({.collective = Collective::barrier, .world = 3},
                        [](Builder& b) { b.send(input(0), (b.me() + 1) % 3).drop((b.me() + 2) % 3, input(0)); });
  CHECK_THAT(error_of(all), Contains("may leave the barrier before rank"));
}

TEST_CASE("verify: ranks without the buffer may not use it") {
  const Shape gather{.collective = Collective::gather, .world = 2, .chunks = 2};
  CHECK_THAT(error_of(make(gather, [](Builder& b) { b.copy(input(b.me()), output(b.me())); })),
             Contains("rank 1 lane 0 step 0") && Contains("writes output chunk 1, which rank 1 does not have"));
  CHECK_THAT(error_of(make(gather, [](Builder& b) { b.send(input(0), 1 - b.me()); })),
             Contains("reads input chunk 0, which rank 1 does not have"));
}

TEST_CASE("verify: structure out of bounds is refused, field by field") {
  Builder build(allreduce(3, 3, 2), 0);
  build.copy_send(input(0), output(0), both(1, 2)).lane(1).wait(0, 1).recv(1, output(1));
  const Schedule sound = std::move(build).finish();
  REQUIRE(check_structure(sound).ok());
  const auto broken = [&](const std::function<void(Schedule&)>& change) {
    Schedule s = sound;
    change(s);
    return check_structure(s).text();
  };
  CHECK_THAT(broken([](Schedule& s) { s.steps[0].to = 1000; }), Contains("leaves the"));
  CHECK_THAT(broken([](Schedule& s) { s.peers[1] = 0xffffffff; }), Contains("leaves the"));
  CHECK_THAT(broken([](Schedule& s) { s.peers[2] = 3; }), Contains("names rank 3 in a world of 3"));
  CHECK_THAT(broken([](Schedule& s) { s.peers[2] = 2; }), Contains("names rank 2 twice"));
  CHECK_THAT(broken([](Schedule& s) { s.peers[2] = 0; }), Contains("itself"));
  CHECK_THAT(broken([](Schedule& s) { s.steps[0].src_chunk = 3; }), Contains("chunk 3 of 3"));
  CHECK_THAT(broken([](Schedule& s) { s.steps[0].dst_place = Place::scratch; }), Contains("chunk 0 of 0"));
  CHECK_THAT(broken([](Schedule& s) { s.steps[0].dst_place = Place::input; }), Contains("writes the input"));
  CHECK_THAT(broken([](Schedule& s) { s.steps[0].src_place = static_cast<Place>(7); }), Contains("place 7"));
  CHECK_THAT(broken([](Schedule& s) { s.steps[0].verbs = 0x80; }), Contains("verbs 0x80"));
  CHECK_THAT(broken([](Schedule& s) { s.steps[0].reserved = 1; }), Contains("reserved"));
  CHECK_THAT(broken([](Schedule& s) { s.steps[0].flags = 6; }), Contains("flags"));
  CHECK_THAT(broken([](Schedule& s) { s.steps[1].wait_step = 2; }),
             Contains("waits for 2 steps of lane 0, which has 1"));
  CHECK_THAT(broken([](Schedule& s) { s.steps[1].wait_lane = 2; }), Contains("waits for lane 2 of 2"));
  CHECK_THAT(broken([](Schedule& s) { s.steps[1].wait_lane = 1; }), Contains("its own lane"));
  CHECK_THAT(broken([](Schedule& s) { s.steps[1].src_chunk = 1; }), Contains("a source that nothing uses"));
  CHECK_THAT(broken([](Schedule& s) { s.lane_begin[1] = 3; }), Contains("lane_begin"));
  CHECK_THAT(broken([](Schedule& s) { s.lane_begin.pop_back(); }), Contains("lane_begin"));
  CHECK_THAT(broken([](Schedule& s) { s.scratch.push_back(3); }), Contains("scratch 0 has the size of chunk 3 of 3"));
  CHECK_THAT(broken([](Schedule& s) { s.peers.clear(); }), Contains("peers[0]"));
  CHECK_THAT(broken([](Schedule& s) { s.rank = 3; }), Contains("rank 3 in a world of 3"));
  CHECK_THAT(broken([](Schedule& s) { s.lanes = 0; }), Contains("0 lanes"));
}

TEST_CASE("verify: schedules that do not belong together are refused") {
  const Algorithm& ring = *find_algorithm(Collective::allreduce, "ring");
  std::vector<Schedule> all;
  for (Rank rank = 0; rank < 3; ++rank) all.push_back(ring.generate(allreduce(3, 3), rank));
  CHECK_THAT(error_of({}), Contains("no schedules"));
  CHECK_THAT(error_of({all[0], all[1]}), Contains("a world of 3, but 2 schedules"));
  CHECK_THAT(error_of({all[0], all[0], all[2]}), Contains("the schedule at place 1 is that of rank 0"));
  all[2].root = 1;
  CHECK_THAT(error_of(all), Contains("rank 2: allreduce root 1"));
}

TEST_CASE("verify: a collective without an in-place form is unsupported in place") {
  const Algorithm& pairwise = *find_algorithm(Collective::alltoall, "pairwise");
  const Schedule one = pairwise.generate({.collective = Collective::alltoall, .world = 1}, 0);
  CHECK(verify(std::vector{one}, {.in_place = true}).code() == Code::unsupported);
  CHECK(verify(std::vector{one}, {.slices = 0}).code() == Code::invalid);
}
