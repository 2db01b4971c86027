// Every algorithm of the registry, proven by the verifier for many shapes. A new algorithm is covered by its line in
// the registry.
#include <catch2/catch.hpp>

#include <algorithm>
#include <string>
#include <vector>

#include "algo/registry.h"
#include "sched/fuse.h"
#include "sched/verify.h"

using namespace rondo;

namespace {

std::vector<Schedule> generate(const Algorithm& algorithm, const Shape& shape) {
  std::vector<Schedule> all;
  for (uint32_t rank = 0; rank < shape.world; ++rank) all.push_back(algorithm.generate(shape, rank));
  return all;
}

Shape shape_of(const Algorithm& algorithm, uint32_t world, uint32_t lanes, uint32_t root) {
  return {.collective = algorithm.collective,
          .world = world,
          .chunks = algorithm.chunks(world, lanes),
          .lanes = lanes,
          .root = root};
}

std::string title(const Algorithm& algorithm, const Shape& shape, const VerifyOptions& options) {
  return std::string(name(algorithm.collective)) + " " + std::string(algorithm.name) + " world " +
         std::to_string(shape.world) + " lanes " + std::to_string(shape.lanes) + " root " + std::to_string(shape.root) +
         " slices " + std::to_string(options.slices) + " window " + std::to_string(options.window) +
         (options.in_place ? " in place" : "");
}

void prove(const Algorithm& algorithm, const Shape& shape, VerifyOptions options) {
  const std::vector<Schedule> all = generate(algorithm, shape);
  std::vector<Schedule> fused;
  for (const Schedule& schedule : all) fused.push_back(fuse(schedule));
  for (const bool in_place : {false, true}) {
    if (in_place && !has_in_place_form(algorithm.collective)) continue;
    options.in_place = in_place;
    INFO(title(algorithm, shape, options));
    const Status plain = verify(all, options);
    INFO(plain.text());
    REQUIRE(plain.ok());
    if (fused == all) continue;
    const Status after = verify(fused, options);
    INFO("fused: " << after.text());
    REQUIRE(after.ok());
  }
}

std::vector<uint32_t> roots(const Algorithm& algorithm, uint32_t world) {
  if (!rooted(algorithm.collective)) return {0};
  std::vector<uint32_t> list = {0, 1, world / 2, world - 1};
  std::erase_if(list, [&](uint32_t root) { return root >= world; });
  std::sort(list.begin(), list.end());
  list.erase(std::unique(list.begin(), list.end()), list.end());
  return list;
}

}  // namespace

TEST_CASE("every algorithm: proven in full for worlds 1 to 9") {
  for (const Algorithm& algorithm : algorithms()) {
    if (algorithm.generate == nullptr) continue;
    for (uint32_t world = 1; world <= 9; ++world)
      for (uint32_t lanes = 1; lanes <= 3; ++lanes)
        for (const uint32_t root : roots(algorithm, world))
          for (uint32_t slices = 1; slices <= 3; ++slices)
            for (uint32_t window = 1; window <= slices; ++window)
              prove(algorithm, shape_of(algorithm, world, lanes, root),
                    {.window = window,
                     .slices = slices,
                     .operations_in_flight = slices == 3 ? 1u : 2u,
                     .seed = world * 1000 + lanes * 100 + slices * 10 + window});
  }
}

TEST_CASE("every algorithm: proven for worlds 10 to 33, a selection of the options") {
  for (const Algorithm& algorithm : algorithms()) {
    if (algorithm.generate == nullptr) continue;
    for (uint32_t world = 10; world <= 33; ++world) {
      const std::vector<uint32_t> choices = roots(algorithm, world);
      const bool small = world <= 17 || world >= 32;
      prove(algorithm, shape_of(algorithm, world, small ? 1 + world % 2 : 1, choices[world % choices.size()]),
            {.window = 1 + world % 2, .slices = small ? 2u : 1u, .random_orders = small ? 1u : 0u, .seed = world});
    }
  }
}

TEST_CASE("every algorithm: proven with a rank order that is not 0, 1, 2") {
  for (const Algorithm& algorithm : algorithms()) {
    if (algorithm.generate == nullptr) continue;
    for (uint32_t world = 2; world <= 8; ++world) {
      std::vector<uint32_t> order(world);
      for (uint32_t i = 0; i < world; ++i) order[i] = i % 2 == 0 ? i / 2 : world - 1 - i / 2;
      for (const uint32_t root : roots(algorithm, world)) {
        Shape shape = shape_of(algorithm, world, 2, root);
        shape.order = order;
        prove(algorithm, shape, {.window = 2, .slices = 2});
      }
    }
  }
}

TEST_CASE("registry: names are unique within a collective, and algorithms are found by them") {
  for (const Algorithm& algorithm : algorithms()) {
    CHECK(find_algorithm(algorithm.collective, algorithm.name) == &algorithm);
    CHECK(!algorithm.cost.empty());
    CHECK(reduces(algorithm.collective) == (algorithm.order != SumOrder::none));
  }
  CHECK(find_algorithm(Collective::allreduce, "nothing") == nullptr);
}
