// Sends of memory that peers read where it lies (by_reference), and the heap it comes from.
#include <poll.h>
#include <sys/mman.h>

#include <cstring>
#include <fstream>

#include <catch2/catch.hpp>

#include "conformance.h"
#include "transports/shm/heap.h"
#include "transports/shm/layout.h"
#include "transports/shm/shm.h"

using namespace rondo;
using conformance::first_wrong;
using conformance::Rig;

namespace {

constexpr size_t kSlot = 64 << 10;
constexpr size_t kLarge = 40'000;

conformance::World reference_world(uint32_t ranks) {
  conformance::World world;
  for (Rank rank = 0; rank < ranks; ++rank) {
    auto made = make_shm({.identity = {.job = 11, .rank = rank, .world = ranks},
                          .segment_bytes = 2 << 20,
                          .slot_bytes = kSlot,
                          .by_reference = true,
                          .linger_ms = 200});
    REQUIRE(made.ok());
    world.transports.push_back(std::move(made).value());
  }
  connect_all(world);
  return world;
}

Frame frame_of(size_t bytes, uint32_t seq = 1) { return {.comm = 1, .seq = seq, .bytes = bytes}; }

std::byte* allocate(Rig& rig, Rank rank, size_t bytes) {
  auto memory = rig.at(rank).alloc(bytes);
  REQUIRE(memory.ok());
  return static_cast<std::byte*>(*memory);
}
void fill(std::byte* memory, uint64_t seed, size_t bytes) {
  for (size_t i = 0; i < bytes; ++i) memory[i] = conformance::pattern(seed, i);
}

}  // namespace

TEST_CASE("conformance: shm, by reference") { conformance::run(reference_world); }

TEST_CASE("shm references: allocated memory is read where it lies, until the reader releases it") {
  Rig rig(reference_world, 2);
  std::byte* memory = allocate(rig, 0, 4 * kLarge);
  fill(memory + 100, 1, kLarge);
  REQUIRE(rig.link(0, 1).send(frame_of(kLarge), memory + 100, 77) == Sent::pending);
  const Message message = rig.receive(1, 0, key_of(frame_of(0)));
  CHECK(message.frame.bytes == kLarge);
  CHECK(first_wrong(message.data, 1, kLarge) == kLarge);
  memory[100] = std::byte{0x5a};
  CHECK(message.data[0] == std::byte{0x5a});
  rig.settle();
  CHECK(rig.completions(0, 77) == 0);
  CHECK(rig.at(0).free(memory).code() == Code::invalid);
  rig.link(1, 0).release(message);
  rig.settle();
  CHECK(rig.completions(0, 77) == 1);
  CHECK(rig.at(0).free(memory).ok());
}

TEST_CASE("shm references: small payloads and private memory are copied") {
  Rig rig(reference_world, 2);
  std::byte* memory = allocate(rig, 0, kSlot);
  const std::vector<std::byte> own(kSlot);
  CHECK(rig.link(0, 1).send(frame_of(1000), memory, 1) == Sent::done);
  CHECK(rig.link(0, 1).send(frame_of(kSlot), own.data(), 2) == Sent::done);
  CHECK(rig.link(0, 1).send(frame_of(kSlot), memory, 3) == Sent::pending);
  CHECK(rig.link(0, 1).send(frame_of(kSlot - 1), memory + 1, 4) == Sent::pending);
}

TEST_CASE("shm references: slots, references and small messages keep their order") {
  Rig rig(reference_world, 2);
  std::byte* memory = allocate(rig, 0, 300 * kSlot);
  uint64_t seed = 0;
  std::vector<size_t> sizes;
  for (int i = 0; i < 120; ++i) {
    const size_t bytes = i % 3 == 0 ? 20 : i % 3 == 1 ? kSlot : 1000;
    std::byte* data = memory + static_cast<size_t>(i) * kSlot;
    fill(data, seed++, bytes);
    rig.send(0, 1, frame_of(bytes), data, static_cast<Token>(i));
    sizes.push_back(bytes);
  }
  for (size_t i = 0; i < sizes.size(); ++i) rig.expect(1, 0, frame_of(sizes[i]), i);
  rig.settle();
  CHECK(rig.completions(0) == 40);
}

TEST_CASE("shm references: a sender that sleeps is woken when its memory is released") {
  Rig rig(reference_world, 2);
  std::byte* memory = allocate(rig, 0, kLarge);
  REQUIRE(rig.link(0, 1).send(frame_of(kLarge), memory, 5) == Sent::pending);
  const Message message = rig.receive(1, 0, key_of(frame_of(0)));
  for (int tries = 0; !rig.at(0).arm(); ++tries) {
    REQUIRE(tries < 1000);
    rig.progress(0);
  }
  pollfd waiting{.fd = rig.at(0).wait_fd(), .events = POLLIN, .revents = 0};
  CHECK(::poll(&waiting, 1, 0) == 0);
  rig.link(1, 0).release(message);
  CHECK(::poll(&waiting, 1, 1000) == 1);
  rig.at(0).disarm();
  rig.settle();
  CHECK(rig.completions(0, 5) == 1);
}

TEST_CASE("shm references: more than a peer may hold are taken over by it when nobody asks for them") {
  Rig rig(reference_world, 2);
  std::byte* memory = allocate(rig, 0, kLarge);
  fill(memory, 9, kLarge);
  constexpr uint64_t kMany = 3 * shm::kMaxReferences;
  for (Token token = 0; token < kMany; ++token) rig.send(0, 1, frame_of(kLarge), memory, token);
  rig.send(0, 1, frame_of(8, 2), conformance::payload(3, 8).data());
  rig.expect(1, 0, frame_of(8, 2), 3);
  for (uint64_t i = 0; i < kMany; ++i) rig.expect(1, 0, frame_of(kLarge), 9);
  rig.settle();
  CHECK(rig.completions(0) == kMany);
  for (Token token = 0; token < kMany; ++token) REQUIRE(rig.completions(0, token) == 1);
}

TEST_CASE("shm references: what is detached stays as it was for the reader, whatever its owner does") {
  Rig rig(reference_world, 3);
  std::byte* memory = allocate(rig, 0, 4 * kLarge);
  std::byte* data = memory + 5000;
  fill(memory, 4, 4 * kLarge);
  fill(data, 6, kLarge);
  REQUIRE(rig.link(0, 1).send(frame_of(kLarge), data, 1) == Sent::pending);
  REQUIRE(rig.link(0, 2).send(frame_of(kLarge), data, 1) == Sent::pending);
  rig.link(0, 1).detach(1);
  rig.link(0, 2).detach(1);
  rig.link(0, 2).detach(4711);
  CHECK(first_wrong(data, 6, kLarge) == kLarge);
  std::fill_n(memory, 4 * kLarge, std::byte{0xee});
  rig.expect(1, 0, frame_of(kLarge), 6);
  rig.expect(2, 0, frame_of(kLarge), 6);
  rig.settle();
  CHECK(rig.completions(0, 1) == 2);
  // From now on this allocation is copied; others are not.
  fill(data, 7, kLarge);
  CHECK(rig.link(0, 1).send(frame_of(kLarge), data, 2) == Sent::done);
  rig.expect(1, 0, frame_of(kLarge), 7);
  CHECK(rig.at(0).free(memory).ok());
  std::byte* other = allocate(rig, 0, 4 * kLarge);
  fill(other, 8, kLarge);
  CHECK(rig.link(0, 1).send(frame_of(kLarge), other, 3) == Sent::pending);
  rig.expect(1, 0, frame_of(kLarge), 8);
}

TEST_CASE("shm references: a lost reader completes what it held") {
  Rig rig(reference_world, 2);
  std::byte* memory = allocate(rig, 0, kLarge);
  for (Token token = 0; token < 10; ++token)
    REQUIRE(rig.link(0, 1).send(frame_of(kLarge), memory, token) == Sent::pending);
  rig.kill(1);
  rig.until("the loss", [&] { return !rig.link(0, 1).status().ok(); });
  rig.settle();
  for (Token token = 0; token < 10; ++token) CHECK(rig.completions(0, token) == 1);
  CHECK(rig.at(0).free(memory).ok());
}

TEST_CASE("shm references: what a lost sender had published can still be read") {
  Rig rig(reference_world, 2);
  std::byte* memory = allocate(rig, 1, kLarge);
  fill(memory, 12, kLarge);
  REQUIRE(rig.link(1, 0).send(frame_of(kLarge), memory, 1) == Sent::pending);
  rig.kill(1);
  rig.expect(0, 1, frame_of(kLarge), 12);
}

TEST_CASE("shm places: allocated memory is read and written by peers where it lies, until it is taken away") {
  Rig rig(reference_world, 2);
  std::byte* memory = allocate(rig, 0, 3 * kLarge);
  std::byte private_memory[64];
  uint64_t place = 0;
  CHECK_FALSE(rig.at(0).locate(private_memory, 64, &place));
  CHECK_FALSE(rig.at(0).locate(memory, size_t{1} << 40, &place));
  REQUIRE(rig.at(0).locate(memory + 100, kLarge, &place));
  std::byte* there = rig.at(1).view(0, place, kLarge);
  REQUIRE(there != nullptr);
  CHECK(rig.at(1).view(0, UINT64_MAX - 10, 100) == nullptr);
  CHECK(rig.at(1).view(0, place, SIZE_MAX) == nullptr);
  fill(memory + 100, 1, kLarge);
  CHECK(first_wrong(there, 1, kLarge) == kLarge);
  fill(there, 2, kLarge);
  CHECK(first_wrong(memory + 100, 2, kLarge) == kLarge);

  CHECK(rig.at(0).part(private_memory, 64).code() == Code::invalid);
  REQUIRE(rig.at(0).part(memory + 100, kLarge).ok());
  CHECK(first_wrong(memory + 100, 2, kLarge) == kLarge);
  fill(there, 3, kLarge);
  CHECK(first_wrong(memory + 100, 2, kLarge) == kLarge);
  CHECK_FALSE(rig.at(0).locate(memory + 100, kLarge, &place));
  // Another range of the same allocation, which shares a page with the first.
  REQUIRE(rig.at(0).part(memory + 100 + kLarge, kLarge).ok());
  CHECK(first_wrong(memory + 100, 2, kLarge) == kLarge);
  CHECK(rig.at(0).free(memory).ok());
}

TEST_CASE("heap: memory is zeroed, given back, joined and used again") {
  UniqueFd fd;
  auto made = shm::Heap::create(&fd);
  REQUIRE(made.ok());
  shm::Heap& heap = **made;
  std::vector<std::byte*> blocks;
  for (int i = 0; i < 4; ++i) {
    auto memory = heap.alloc(10'000);
    REQUIRE(memory.ok());
    blocks.push_back(static_cast<std::byte*>(*memory));
    CHECK(reinterpret_cast<uintptr_t>(blocks.back()) % 128 == 0);
    std::fill_n(blocks.back(), 10'000, std::byte{0xff});
  }
  for (const int i : {1, 3, 0, 2}) CHECK(heap.free(blocks[i]).ok());
  auto whole = heap.alloc(heap.bytes());
  REQUIRE(whole.ok());
  CHECK(*whole == blocks[0]);
  CHECK(std::all_of(blocks[0], blocks[0] + 50'000, [](std::byte b) { return b == std::byte{0}; }));
  CHECK(heap.alloc(1).status().code() == Code::no_memory);
  CHECK(heap.free(*whole).ok());
  CHECK(heap.free(*whole).code() == Code::invalid);
}

TEST_CASE("heap: only what lies in one allocation is found in it") {
  UniqueFd fd;
  auto made = shm::Heap::create(&fd);
  REQUIRE(made.ok());
  shm::Heap& heap = **made;
  auto first = heap.alloc(4096);
  auto second = heap.alloc(8192);
  REQUIRE((first.ok() && second.ok()));
  const auto* base = static_cast<std::byte*>(*first);
  uint64_t offset = 99;
  CHECK(heap.locate(base, 4096, &offset));
  CHECK(offset == 0);
  CHECK(heap.locate(base + 4096 + 100, 8092, &offset));
  CHECK(offset == 4196);
  CHECK_FALSE(heap.locate(base, 4097, &offset));
  CHECK_FALSE(heap.locate(base + 4096 + 100, 8093, &offset));
  CHECK_FALSE(heap.locate(base + 3 * 4096, 1, &offset));
  CHECK_FALSE(heap.locate(base - 1, 1, &offset));
  const std::byte own{};
  CHECK_FALSE(heap.locate(&own, 1, &offset));
  REQUIRE(heap.free(*first).ok());
  CHECK_FALSE(heap.locate(base, 1, &offset));
}
