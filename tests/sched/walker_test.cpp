// The Walker and the Builder: when a step may run, and how a program is laid out.
#include <catch2/catch.hpp>

#include <vector>

#include "sched/builder.h"
#include "sched/verify.h"
#include "sched/walker.h"

using namespace rondo;

namespace {

Shape shape(uint32_t lanes = 1, uint32_t chunks = 4) {
  return {.collective = Collective::allreduce, .world = 4, .chunks = chunks, .lanes = lanes};
}

// Advances with one answer to everything and returns what was offered.
std::vector<Instance> advance(Walker& walker, Outcome answer) {
  std::vector<Instance> seen;
  walker.advance([&](const Instance& instance, const Step&) {
    seen.push_back(instance);
    return answer;
  });
  return seen;
}

}  // namespace

TEST_CASE("walker: a lane runs its steps in order") {
  Builder build(shape(), 0);
  build.copy(input(0), output(0)).copy(input(1), output(1)).copy(input(2), output(2));
  const Schedule s = std::move(build).finish();
  Walker walker(s, {});
  const std::vector<Instance> seen = advance(walker, Outcome::done);
  CHECK(seen == std::vector<Instance>{{0, 0, 0}, {1, 0, 0}, {2, 0, 0}});
  CHECK(walker.complete());
  CHECK(walker.retired() == 3);
}

TEST_CASE("walker: a blocked step is offered again and holds its lane only") {
  Builder build(shape(2), 0);
  build.lane(0).recv(1, output(0)).lane(1).copy(input(1), output(1)).copy(input(2), output(2));
  const Schedule s = std::move(build).finish();
  Walker walker(s, {});
  walker.advance([](const Instance& at, const Step&) { return at.lane == 0 ? Outcome::blocked : Outcome::done; });
  CHECK(walker.retired() == 2);
  CHECK(!walker.complete());
  uint32_t heads = 0;
  walker.heads([&](const Instance& at, const Step& step) {
    ++heads;
    CHECK(at.step == 0);
    CHECK(has(step, kRecv));
  });
  CHECK(heads == 1);
  CHECK(advance(walker, Outcome::done).size() == 1);
  CHECK(walker.complete());
}

TEST_CASE("walker: a waiting step runs once the other lane has retired that many steps") {
  Builder build(shape(2), 0);
  build.lane(0).copy(input(0), output(0)).copy(input(1), output(1));
  build.lane(1).wait(0, 2).copy(input(2), output(2));
  const Schedule s = std::move(build).finish();
  Walker walker(s, {});
  walker.advance([](const Instance& at, const Step&) { return at.step == 1 ? Outcome::blocked : Outcome::done; });
  CHECK(walker.retired() == 1);
  CHECK(advance(walker, Outcome::done) == std::vector<Instance>{{1, 0, 0}, {2, 0, 1}});
  CHECK(walker.complete());
}

TEST_CASE("walker: at most window slices are in flight, and the next begins when the oldest is complete") {
  Builder build(shape(), 0);
  build.copy(input(0), output(0));
  const Schedule s = std::move(build).finish();
  Walker walker(s, {.slices = 4, .window = 2});
  CHECK(advance(walker, Outcome::pending) == std::vector<Instance>{{0, 0, 0}, {0, 1, 0}});
  walker.finished({0, 1, 0}, false);
  CHECK(walker.oldest_slice() == 0);
  CHECK(advance(walker, Outcome::pending).empty());
  walker.finished({0, 0, 0}, false);
  CHECK(walker.oldest_slice() == 2);
  CHECK(advance(walker, Outcome::done) == std::vector<Instance>{{0, 2, 0}, {0, 3, 0}});
  CHECK(walker.complete());
}

TEST_CASE("walker: a chunk is not overwritten while a send reads it") {
  Builder build(shape(), 0);
  build.send(output(0), 1).recv(2, output(0)).recv(2, output(1));
  const Schedule s = std::move(build).finish();
  Walker walker(s, {});
  CHECK(advance(walker, Outcome::sending) == std::vector<Instance>{{0, 0, 0}});
  walker.sent({0, 0, 0});
  CHECK(advance(walker, Outcome::done).size() == 2);
  CHECK(walker.complete());
}

TEST_CASE("walker: a chunk that a step stored and sends may be read but not overwritten") {
  Builder build(shape(), 0);
  build.recv_send(1, output(0), std::vector<uint32_t>{2}).send(output(0), 3).recv(1, output(0));
  const Schedule s = std::move(build).finish();
  Walker walker(s, {});
  CHECK(advance(walker, Outcome::sending).size() == 2);
  walker.sent({0, 0, 0});
  CHECK(advance(walker, Outcome::sending).empty());
  walker.sent({1, 0, 0});
  CHECK(advance(walker, Outcome::done).size() == 1);
}

TEST_CASE("walker: a pending step keeps others from reading what it writes and writing what it reads") {
  Builder build(shape(3), 0);
  build.lane(0).copy(input(0), output(0));
  build.lane(1).send(output(0), 1);
  build.lane(2).recv(1, output(1));
  const Schedule s = std::move(build).finish();
  Walker walker(s, {});
  std::vector<uint32_t> lanes;
  walker.advance([&](const Instance& at, const Step&) {
    lanes.push_back(at.lane);
    return at.lane == 0 ? Outcome::pending : Outcome::done;
  });
  CHECK(lanes == std::vector<uint32_t>{0, 2});
  walker.finished({0, 0, 0}, false);
  CHECK(advance(walker, Outcome::done) == std::vector<Instance>{{1, 0, 1}});
}

TEST_CASE("walker: in place, input and output of one chunk are the same memory") {
  Builder build(shape(), 0);
  build.send(input(0), 1).recv(1, output(0));
  const Schedule s = std::move(build).finish();
  Walker apart(s, {});
  CHECK(advance(apart, Outcome::sending).size() == 1 + 1);
  Walker in_place(s, {.in_place = true});
  CHECK(advance(in_place, Outcome::sending).size() == 1);
}

TEST_CASE("walker: it is complete only when the last send has been read") {
  Builder build(shape(), 0);
  build.send(input(0), 1);
  const Schedule s = std::move(build).finish();
  Walker walker(s, {.slices = 2, .window = 1});
  CHECK(advance(walker, Outcome::sending).size() == 1);
  walker.sent({0, 0, 0});
  CHECK(advance(walker, Outcome::sending) == std::vector<Instance>{{0, 1, 0}});
  CHECK(!walker.complete());
  walker.sent({0, 1, 0});
  CHECK(walker.complete());
}

TEST_CASE("walker: a program without steps is complete at once, for any number of slices") {
  const Schedule s = Builder(shape(3), 0).finish();
  CHECK(Walker(s, {.slices = 5, .window = 2}).complete());
}

TEST_CASE("builder: equal lists are stored once, and programs compare by value however lanes were written") {
  const std::vector<uint32_t> list = {1, 2};
  Builder turns(shape(2), 0), lanes(shape(2), 0);
  turns.lane(1).send(input(1), 3).lane(0).send(input(0), list).lane(1).send(input(1), list);
  lanes.lane(0).send(input(0), list).lane(1).send(input(1), 3).send(input(1), list);
  const Schedule a = std::move(turns).finish(), b = std::move(lanes).finish();
  CHECK(a == b);
  CHECK(a.peers == std::vector<uint32_t>{0, 2, 1, 2, 1, 3});
  CHECK(check_structure(a).ok());
}

TEST_CASE("builder: sending to nobody stores only") {
  Builder build(shape(), 0);
  build.send(input(0), std::vector<uint32_t>{}).copy_send(input(0), output(0), {}).recv_send(1, output(1), {});
  const Schedule s = std::move(build).finish();
  REQUIRE(s.steps.size() == 2);
  CHECK(s.steps[0].verbs == kStore);
  CHECK(s.steps[1].verbs == (kRecv | kStore));
}
