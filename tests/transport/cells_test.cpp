#include "transport/cells.h"

#include <array>
#include <memory>
#include <thread>
#include <vector>

#include <catch2/catch.hpp>

#include "base/clock.h"
#include "transport/moves.h"

using namespace rondo;

namespace {

constexpr int64_t kPatienceMs = 60'000;

struct alignas(128) Piece {
  std::byte bytes[Cells::area_bytes(1)] = {};
};

std::byte value(uint64_t turn, uint32_t member, size_t i) {
  return static_cast<std::byte>((turn * 131 + member * 17 + i * 7) & 0xff);
}

std::vector<std::byte> payload(uint64_t turn, uint32_t member, size_t bytes) {
  std::vector<std::byte> data(bytes);
  for (size_t i = 0; i < bytes; ++i) data[i] = value(turn, member, i);
  return data;
}

// Members of one exchange, with their pieces in this process's memory.
struct Group {
  explicit Group(uint32_t members) : pieces(members), cells(members) {
    std::vector<const std::byte*> all;
    for (const Piece& piece : pieces) all.push_back(piece.bytes);
    for (uint32_t i = 0; i < members; ++i) cells[i].bind(pieces[i].bytes, all);
  }
  std::vector<Piece> pieces;
  std::vector<Cells> cells;
};

// Runs `turns` turns as one member; false when a payload was wrong or the other did not answer.
bool take_part(Cells& cells, uint32_t self, uint64_t turns) {
  const Deadline deadline = Deadline::after_ms(kPatienceMs);
  for (uint64_t turn = 1; turn <= turns; ++turn) {
    const std::vector<std::byte> mine = payload(turn, self, turn * 13 % (Cells::kPayloadBytes + 1));
    cells.publish(turn, turn * 3 + self, mine.data(), mine.size());
    for (uint32_t member = 0; member < cells.members(); ++member) {
      Cells::Seen seen;
      while ((seen = cells.ready(member, turn)).payload == nullptr) {
        if (deadline.passed()) return false;
        std::this_thread::yield();
      }
      if (seen.bytes != mine.size() || seen.fingerprint != turn * 3 + member) return false;
      for (size_t i = 0; i < seen.bytes; ++i)
        if (seen.payload[i] != value(turn, member, i)) return false;
    }
  }
  return true;
}

}  // namespace

TEST_CASE("moves: exactly the bytes asked for are copied, for any length and offset") {
  std::array<std::byte, 400> from, to;
  for (size_t i = 0; i < from.size(); ++i) from[i] = static_cast<std::byte>(i * 7 + 1);
  for (size_t offset = 0; offset < 3; ++offset) {
    for (size_t bytes = 0; bytes <= 200; ++bytes) {
      to.fill(std::byte{0xee});
      copy_moves(to.data() + 100, from.data() + offset, bytes);
      bool right = true;
      for (size_t i = 0; i < to.size(); ++i) {
        const bool inside = i >= 100 && i < 100 + bytes;
        right &= to[i] == (inside ? from[offset + i - 100] : std::byte{0xee});
      }
      INFO("offset " << offset << ", " << bytes << " bytes");
      REQUIRE(right);
    }
  }
}

TEST_CASE("cells: a payload of any size arrives whole, with its fingerprint") {
  Group group(2);
  uint64_t turn = 0;
  for (const size_t bytes : {0, 1, 7, 8, 15, 16, 47, 48, 49, 64, 1000, 1024}) {
    ++turn;
    const std::vector<std::byte> data = payload(turn, 0, bytes);
    CHECK(group.cells[1].ready(0, turn).payload == nullptr);
    group.cells[0].publish(turn, 1000 + turn, data.data(), bytes);
    const Cells::Seen seen = group.cells[1].ready(0, turn);
    REQUIRE(seen.payload != nullptr);
    CHECK(seen.bytes == bytes);
    CHECK(seen.fingerprint == 1000 + turn);
    CHECK(std::equal(data.begin(), data.end(), seen.payload));
  }
}

TEST_CASE("cells: a payload of up to 48 bytes stands in one cache line with its flag") {
  Group group(1);
  const std::vector<std::byte> data = payload(1, 0, Cells::kFlagLineBytes);
  group.cells[0].publish(1, 5, data.data(), data.size());
  const std::byte* at = group.cells[0].ready(0, 1).payload;
  CHECK(reinterpret_cast<uintptr_t>(at) / 64 == reinterpret_cast<uintptr_t>(at + data.size() - 1) / 64);
  CHECK(reinterpret_cast<uintptr_t>(at) % 16 == 0);
}

TEST_CASE("cells: neither the turn before nor the turn after passes for the awaited one") {
  Group group(2);
  const std::byte word[8] = {};
  CHECK(group.cells[0].ready(1, 1).cpu == Cells::kNoCpu);
  group.cells[1].publish(1, 0, word, 8);
  CHECK(group.cells[0].ready(1, 2).payload == nullptr);
  CHECK(group.cells[0].ready(1, 3).payload == nullptr);
  group.cells[1].publish(2, 0, word, 8);
  CHECK(group.cells[0].ready(1, 1).payload != nullptr);
  CHECK(group.cells[0].ready(1, 2).payload != nullptr);
  group.cells[1].publish(3, 0, word, 8);
  CHECK(group.cells[0].ready(1, 1).payload == nullptr);
}

TEST_CASE("cells: the CPU that the writer ran on is known before its next turn") {
  Group group(2);
  const std::byte word[8] = {};
  group.cells[1].publish(1, 0, word, 8);
  CHECK(group.cells[0].ready(1, 1).cpu < Cells::kNoCpu);
  CHECK(group.cells[0].ready(1, 2).cpu == group.cells[0].ready(1, 1).cpu);
}

TEST_CASE("cells: a result written in place is published like a copy") {
  Group group(2);
  const std::vector<std::byte> data = payload(4, 1, 300);
  std::copy(data.begin(), data.end(), group.cells[1].room(4));
  group.cells[1].publish_placed(4, 9, data.size());
  const Cells::Seen seen = group.cells[0].ready(1, 4);
  REQUIRE(seen.payload != nullptr);
  CHECK(seen.fingerprint == 9);
  CHECK(std::equal(data.begin(), data.end(), seen.payload));
}

TEST_CASE("cells: a size that cannot be is not believed") {
  Group group(2);
  const std::byte word[8] = {};
  group.cells[1].publish(1, 0, word, 8);
  const uint64_t flag = uint64_t{1} << 32 | 0xffff;
  __builtin_memcpy(group.pieces[1].bytes + Cells::area_bytes(1) / 2, &flag, sizeof flag);
  CHECK(group.cells[0].ready(1, 1).payload == nullptr);
}

TEST_CASE("cells: members in threads of their own exchange thousands of turns") {
  for (const uint32_t members : {2u, 3u}) {
    Group group(members);
    std::vector<uint8_t> right(members);
    std::vector<std::thread> threads;
    for (uint32_t i = 0; i < members; ++i)
      threads.emplace_back([&, i] { right[i] = take_part(group.cells[i], i, 3000); });
    for (std::thread& thread : threads) thread.join();
    for (uint32_t i = 0; i < members; ++i) CHECK(right[i] == 1);
  }
}
