// Chunk arithmetic: parts cover a count exactly, for counts up to the largest size_t.
#include <catch2/catch.hpp>

#include <random>
#include <vector>

#include "sched/chunks.h"

using namespace rondo;

namespace {

constexpr size_t kHuge = SIZE_MAX;

// floor(index * count / parts) by 128-bit arithmetic, which chunks.h does without.
size_t begin_of(size_t count, uint32_t parts, uint32_t index) {
  __extension__ using Wide = unsigned __int128;
  return static_cast<size_t>(static_cast<Wide>(index) * count / parts);
}

}  // namespace

TEST_CASE("chunks: parts follow each other, cover the count and differ by at most one") {
  for (const size_t count : {size_t{0}, size_t{1}, size_t{7}, size_t{33}, size_t{1000003}, kHuge - 1, kHuge})
    for (const uint32_t parts : {1u, 2u, 3u, 7u, 33u, 1000u}) {
      size_t next = 0;
      for (uint32_t i = 0; i < parts; ++i) {
        const Range range = part(count, parts, i);
        REQUIRE(range.begin == next);
        REQUIRE(range.count - count / parts <= 1);
        next += range.count;
      }
      REQUIRE(next == count);
    }
}

TEST_CASE("chunks: a part begins at floor(index * count / parts), whatever the sizes") {
  const unsigned seed = 7;
  INFO("seed " << seed);
  std::mt19937_64 random(seed);
  for (int i = 0; i < 20000; ++i) {
    const size_t count = random() >> random() % 64;
    const uint32_t parts = 1 + static_cast<uint32_t>(random() % UINT32_MAX) / (1u << random() % 32);
    const uint32_t index = static_cast<uint32_t>(random() % parts);
    REQUIRE(part_begin(count, parts, index) == begin_of(count, parts, index));
  }
}

TEST_CASE("chunks: blocks of equal size divide like one buffer each") {
  const Layout layout{.chunks = 6, .blocks = 3, .count = 5};
  CHECK(layout.chunk(0) == Range{0, 2});
  CHECK(layout.chunk(1) == Range{2, 3});
  CHECK(layout.chunk(2) == Range{5, 2});
  CHECK(layout.chunk(5) == Range{12, 3});
  CHECK(layout.chunk_count_max() == 3);
}

TEST_CASE("chunks: blocks with counts and displacements of their own") {
  const std::vector<size_t> counts = {0, 7, 1}, displs = {100, 0, 50};
  const Layout layout{.chunks = 6, .blocks = 3, .counts = counts, .displs = displs};
  CHECK(layout.chunk(0) == Range{100, 0});
  CHECK(layout.chunk(2) == Range{0, 3});
  CHECK(layout.chunk(3) == Range{3, 4});
  CHECK(layout.chunk(4) == Range{50, 0});
  CHECK(layout.chunk(5) == Range{50, 1});
  CHECK(layout.chunk_count_max() == 4);
}

TEST_CASE("chunks: more chunks than elements leaves empty chunks that still exist") {
  const Layout layout{.chunks = 8, .count = 3};
  size_t total = 0;
  for (uint32_t i = 0; i < 8; ++i) total += layout.chunk(i).count;
  CHECK(total == 3);
  CHECK(layout.chunk_count_max() == 1);
  CHECK(slice_exists(0, 16, 0));
  CHECK(!slice_exists(0, 16, 1));
}

TEST_CASE("slices: they cover a chunk exactly and exist only where they hold something") {
  for (const size_t count : {size_t{0}, size_t{1}, size_t{15}, size_t{16}, size_t{17}, size_t{160}, kHuge})
    for (const size_t piece : {size_t{16}, size_t{1} << 62, kHuge}) {
      if (count / piece > 1000) continue;
      const uint32_t slices = slice_count(count, piece);
      size_t next = 0;
      for (uint32_t slice = 0; slice < slices; ++slice) {
        REQUIRE(slice_exists(count, piece, slice));
        const Range range = slice_of(count, piece, slice);
        REQUIRE(range.begin == next);
        next += range.count;
      }
      REQUIRE(next == count);
      REQUIRE(!slice_exists(count, piece, slices));
      REQUIRE(slice_of(count, piece, slices).count == 0);
    }
}
