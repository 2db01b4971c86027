#include "transports/loopback/loopback.h"

#include <cstring>
#include <string>
#include <vector>

#include <catch2/catch.hpp>

#include "conformance.h"

using namespace rondo;

namespace {

Endpoint& join(LoopbackWorld& world, Rank from, Rank to) {
  const Peer peer{to, world.transport(to).address()};
  REQUIRE(world.transport(from).connect({&peer, 1}, Deadline::never()).ok());
  return *world.transport(from).endpoint(to);
}

conformance::Factory factory(const LoopbackOptions& options) {
  return [options](uint32_t ranks) {
    auto loopback = std::make_shared<LoopbackWorld>(ranks, options);
    conformance::World world;
    for (Rank rank = 0; rank < ranks; ++rank) world.transports.push_back(loopback->take(rank));
    world.kill = [loopback](Rank rank) { loopback->kill(rank); };
    connect_all(world);
    return world;
  };
}

}  // namespace

TEST_CASE("conformance: loopback, like shared memory") { conformance::run(factory(LoopbackOptions::like_shm())); }

TEST_CASE("conformance: loopback, like a socket") { conformance::run(factory(LoopbackOptions::like_tcp())); }

TEST_CASE("loopback: a slot comes back to its owner after the last of its readers") {
  LoopbackOptions options = LoopbackOptions::like_shm();
  options.slots = 1;
  LoopbackWorld world(3, options);
  Endpoint& to_1 = join(world, 0, 1);
  Endpoint& to_2 = join(world, 0, 2);
  Endpoint& at_1 = join(world, 1, 0);
  Endpoint& at_2 = join(world, 2, 0);
  const Slot slot = world.transport(0).reserve(8, 2);
  REQUIRE(slot.data != nullptr);
  std::memcpy(slot.data, "payload", 8);
  const Frame frame{.bytes = 8};
  REQUIRE(to_1.commit(frame, slot) == Sent::done);
  REQUIRE(to_2.commit(frame, slot) == Sent::done);
  std::vector<Completion> none;
  world.transport(1).progress(none);
  world.transport(2).progress(none);
  Message first, second;
  REQUIRE(at_1.poll(key_of(frame), &first));
  REQUIRE(at_2.poll(key_of(frame), &second));
  CHECK(first.data == slot.data);
  CHECK(second.data == slot.data);
  at_1.release(first);
  CHECK(world.transport(0).reserve(8, 1).data == nullptr);
  at_2.release(second);
  CHECK(world.transport(0).reserve(8, 1).data != nullptr);
}

TEST_CASE("loopback: a killed rank loses what its peers had not been given, and completes what it had pending") {
  LoopbackWorld world(2, LoopbackOptions::like_tcp());
  Endpoint& to_1 = join(world, 0, 1);
  Endpoint& at_1 = join(world, 1, 0);
  const std::vector<std::byte> big(4096);
  REQUIRE(to_1.send({.bytes = 4}, big.data(), 1) == Sent::done);
  REQUIRE(to_1.send({.bytes = 4096}, big.data(), 2) == Sent::pending);
  REQUIRE(to_1.send({.bytes = 4}, big.data(), 3) == Sent::done);
  world.kill(0);
  std::vector<Completion> completions;
  world.transport(0).progress(completions);
  REQUIRE(completions.size() == 1);
  CHECK(completions[0].token == 2);
  completions.clear();
  world.transport(1).progress(completions);
  CHECK(at_1.status().ok());
  Message message;
  REQUIRE(at_1.poll({}, &message));
  at_1.release(message);
  CHECK_FALSE(at_1.poll({}, &message));
  CHECK(at_1.status().code() == Code::peer);
  CHECK(at_1.status().text() == "loopback: rank 0 was killed");
}

TEST_CASE("loopback: a transport outlives its world and its end is seen as an orderly close") {
  std::unique_ptr<Transport> one;
  {
    LoopbackWorld world(2);
    join(world, 0, 1);
    join(world, 1, 0);
    one = world.take(1);
    REQUIRE(world.transport(0).endpoint(1)->send({.bytes = 3}, reinterpret_cast<const std::byte*>("abc"), 0) ==
            Sent::done);
  }
  std::vector<Completion> none;
  one->progress(none);
  Message message;
  REQUIRE(one->endpoint(0)->poll({}, &message));
  CHECK(std::memcmp(message.data, "abc", 3) == 0);
  one->endpoint(0)->release(message);
  one->progress(none);
  CHECK(one->endpoint(0)->status().text() == "loopback: rank 0 closed the connection");
}

TEST_CASE("loopback: two ranks of different worlds do not reach each other") {
  LoopbackWorld here(2), there(2);
  CHECK(here.transport(0).reaches(here.transport(1).address()).ok());
  CHECK(here.transport(0).reaches(there.transport(1).address()).code() == Code::unsupported);
}
