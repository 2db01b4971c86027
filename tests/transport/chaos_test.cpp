#include "transports/chaos/chaos.h"

#include <algorithm>
#include <vector>

#include <catch2/catch.hpp>

#include "conformance.h"
#include "transports/loopback/loopback.h"

using namespace rondo;

namespace {

conformance::Factory factory(const LoopbackOptions& below, const ChaosOptions& options) {
  return [below, options](uint32_t ranks) {
    LoopbackWorld loopback(ranks, below);
    conformance::World world;
    for (Rank rank = 0; rank < ranks; ++rank) {
      ChaosOptions own = options;
      own.seed = options.seed * 100 + rank;
      world.transports.push_back(make_chaos(loopback.take(rank), own));
    }
    connect_all(world);
    return world;
  };
}

}  // namespace

TEST_CASE("conformance: chaos over loopback, like shared memory") {
  const uint64_t seed = GENERATE(1, 2, 3);
  conformance::run(factory(LoopbackOptions::like_shm(), {.seed = seed}));
}

TEST_CASE("conformance: chaos over loopback, like a socket") {
  const uint64_t seed = GENERATE(1, 2, 3);
  conformance::run(factory(LoopbackOptions::like_tcp(), {.seed = seed}));
}

TEST_CASE("chaos: the same seed and the same calls give the same run") {
  std::vector<std::vector<int>> runs;
  for (const uint64_t seed : {11, 11, 12}) {
    conformance::Rig rig(factory(LoopbackOptions::like_tcp(), {.seed = seed}), 2);
    const std::vector<std::byte> data = conformance::payload(1, 4096);
    std::vector<int> seen;
    for (int i = 0; i < 200; ++i) {
      const size_t bytes = i % 3 == 0 ? 4096 : 8;
      seen.push_back(static_cast<int>(rig.link(0, 1).send({.bytes = bytes}, data.data(), 1)));
      rig.progress(0);
      seen.push_back(rig.progress(1));
      Message message;
      const bool got = rig.link(1, 0).poll({}, &message);
      if (got) rig.link(1, 0).release(message);
      seen.push_back(got);
    }
    runs.push_back(std::move(seen));
    rig.settle();
  }
  CHECK(runs[0] == runs[1]);
  CHECK(runs[0] != runs[2]);
}

TEST_CASE("chaos: messages of different streams overtake each other") {
  conformance::Rig rig(factory(LoopbackOptions::like_shm(), {.seed = 4, .hide = 0}), 2);
  std::vector<uint8_t> order;
  const std::byte word[8] = {};
  for (uint8_t lane = 0; lane < 12; ++lane) rig.send(0, 1, {.lane = lane, .bytes = 8}, word);
  rig.until("all messages", [&] {
    for (uint8_t lane = 0; lane < 12; ++lane) {
      Message message;
      if (!rig.link(1, 0).poll({.lane = lane}, &message)) continue;
      order.push_back(lane);
      rig.link(1, 0).release(message);
    }
    return order.size() == 12;
  });
  CHECK_FALSE(std::is_sorted(order.begin(), order.end()));
}

TEST_CASE("chaos: a peer is lost at the message that was asked for") {
  conformance::Rig rig(factory(LoopbackOptions::like_tcp(), {.seed = 5, .lose_peer = 1, .lose_after = 7}), 3);
  const std::byte word[8] = {};
  uint64_t sent = 0;
  rig.until("the loss", [&] {
    const Sent answer = rig.link(0, 1).send({.bytes = 8}, word, 0);
    if (answer == Sent::done) ++sent;
    return answer == Sent::failed;
  });
  CHECK(sent <= 7);
  CHECK(rig.link(0, 1).status().code() == Code::peer);
  CHECK(rig.link(0, 1).status().text() == "chaos: rank 1 was lost after 7 messages");
  CHECK(rig.link(0, 2).status().ok());
}
