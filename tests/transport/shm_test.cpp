#include "transports/shm/shm.h"

#include <catch2/catch.hpp>

#include "conformance.h"

using namespace rondo;

namespace {

conformance::World shm_world(uint32_t ranks) {
  conformance::World world;
  for (Rank rank = 0; rank < ranks; ++rank) {
    auto made = make_shm({.identity = {.job = 7, .rank = rank, .world = ranks}, .segment_bytes = 4 << 20, .linger_ms = 500});
    REQUIRE(made.ok());
    world.transports.push_back(std::move(made).value());
  }
  connect_all(world);
  return world;
}

}  // namespace

TEST_CASE("conformance: shm") { conformance::run(shm_world); }
