#include "transports/tcp/tcp.h"

#include <catch2/catch.hpp>

#include "conformance.h"

using namespace rondo;

namespace {

conformance::Factory factory(const TcpOptions& options) {
  return [options](uint32_t ranks) {
    conformance::World world;
    for (Rank rank = 0; rank < ranks; ++rank) {
      TcpOptions own = options;
      own.identity = {.job = 77, .epoch = 1, .rank = rank, .world = ranks};
      auto made = make_tcp(own);
      INFO(made.status().text());
      REQUIRE(made.ok());
      world.transports.push_back(std::move(*made));
    }
    connect_all(world);
    return world;
  };
}

}  // namespace

TEST_CASE("conformance: tcp") { conformance::run(factory({})); }

TEST_CASE("conformance: tcp with three sockets per peer and small limits") {
  conformance::run(factory(
      {.streams = 3, .message_bytes = 10'000, .inject_bytes = 100, .queue_messages = 4, .staging_bytes = 20'000}));
}
