// Two or three ranks in one process, cranked by one thread: what happens when a ring or the pool is full, when a peer's
// memory holds nonsense, and in the areas.
#include <fcntl.h>
#include <poll.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cstdio>
#include <fstream>
#include <sstream>

#include <catch2/catch.hpp>

#include "conformance.h"
#include "transports/shm/layout.h"
#include "transports/shm/segment.h"
#include "transports/shm/shm.h"

using namespace rondo;
using conformance::payload;
using conformance::Rig;

namespace {

constexpr size_t kSmallSegment = 1 << 20;
constexpr size_t kSlot = 16 << 10;

conformance::World world_of(uint32_t ranks, size_t segment_bytes = kSmallSegment) {
  conformance::World world;
  for (Rank rank = 0; rank < ranks; ++rank) {
    auto made = make_shm({.identity = {.job = 9, .rank = rank, .world = ranks},
                          .segment_bytes = segment_bytes,
                          .slot_bytes = kSlot,
                          .linger_ms = 200});
    REQUIRE(made.ok());
    world.transports.push_back(std::move(made).value());
  }
  connect_all(world);
  return world;
}
conformance::World small_world(uint32_t ranks) { return world_of(ranks); }

Frame frame_of(size_t bytes, uint32_t seq = 1) { return {.comm = 1, .seq = seq, .bytes = bytes}; }

uint32_t slots_of(uint32_t peers) {
  auto geometry = shm::plan(kSmallSegment, kSlot, peers);
  REQUIRE(geometry.ok());
  return geometry->slots;
}

bool readable(int fd) {
  pollfd waiting{.fd = fd, .events = POLLIN, .revents = 0};
  return ::poll(&waiting, 1, 0) == 1;
}

// Arms a rank that has nothing to do.
void put_to_sleep(Rig& rig, Rank rank) {
  int tries = 0;
  while (!rig.at(rank).arm()) {
    rig.progress(rank);
    REQUIRE(++tries < 1000);
  }
  REQUIRE_FALSE(readable(rig.at(rank).wait_fd()));
}

// A rank's own segment in this process: the writable one of its mappings.
shm::Header& segment_of(Rank rank) {
  std::ifstream maps("/proc/self/maps");
  for (std::string line; std::getline(maps, line);) {
    if (line.find("memfd:rondo ") == std::string::npos || line.find(" rw-s 00000000") == std::string::npos) continue;
    auto* header = reinterpret_cast<shm::Header*>(std::stoull(line, nullptr, 16));
    if (header->title.magic == shm::kMagic && header->title.rank == rank) return *header;
  }
  FAIL("no segment of rank " << rank);
  std::abort();
}
shm::Pair& pair_of(Rank rank, uint32_t index) {
  shm::Header& header = segment_of(rank);
  auto* base = reinterpret_cast<std::byte*>(&header);
  return reinterpret_cast<shm::Pair*>(base + header.title.geometry.pairs_offset)[index];
}

void check_broken(Rig& rig, Rank at, Rank from, const char* text) {
  Message message;
  rig.until("the failure", [&] {
    CHECK_FALSE(rig.link(at, from).poll(key_of(frame_of(0)), &message));
    return !rig.link(at, from).status().ok();
  });
  CHECK(rig.link(at, from).status().code() == Code::peer);
  CHECK_THAT(rig.link(at, from).status().text(), Catch::Matchers::Contains(text));
  const std::byte word[8] = {};
  CHECK(rig.link(at, from).send(frame_of(8), word, 0) == Sent::failed);
}

}  // namespace

TEST_CASE("shm: a full pool says again, and has room as soon as a loan ends") {
  Rig rig(small_world, 2);
  const uint32_t slots = slots_of(1);
  const std::vector<std::byte> data = payload(1, kSlot);
  for (uint32_t i = 0; i < slots; ++i) REQUIRE(rig.link(0, 1).send(frame_of(kSlot), data.data(), 0) == Sent::done);
  REQUIRE(rig.link(0, 1).send(frame_of(kSlot), data.data(), 0) == Sent::again);
  CHECK(rig.at(0).reserve(kSlot, 1).data == nullptr);
  std::vector<Message> lent(slots);
  for (Message& message : lent) REQUIRE(rig.link(1, 0).poll(key_of(frame_of(0)), &message));
  for (int i = 0; i < 10; ++i) rig.crank();
  CHECK(rig.link(0, 1).send(frame_of(kSlot), data.data(), 0) == Sent::again);  // lent memory is never taken back
  rig.link(1, 0).release(lent[slots / 2]);
  CHECK(rig.link(0, 1).send(frame_of(kSlot), data.data(), 0) == Sent::done);
  CHECK(rig.link(0, 1).send(frame_of(kSlot), data.data(), 0) == Sent::again);
  for (uint32_t i = 0; i < slots; ++i) {
    if (i == slots / 2) continue;
    CHECK(conformance::first_wrong(lent[i].data, 1, kSlot) == kSlot);
    rig.link(1, 0).release(lent[i]);
  }
  for (uint32_t i = 0; i + 1 < slots; ++i) CHECK(rig.link(0, 1).send(frame_of(kSlot), data.data(), 0) == Sent::done);
}

TEST_CASE("shm: communicators used in opposite order do not deadlock on full pools") {
  Rig rig(small_world, 2);
  const uint32_t many = 3 * slots_of(1);
  // Rank 0 first sends all of stream 1, rank 1 all of stream 2; each then asks for what the other sends last.
  for (uint32_t i = 0; i < many; ++i) {
    rig.send(0, 1, frame_of(kSlot, 1), payload(i, kSlot).data());
    rig.send(1, 0, frame_of(kSlot, 2), payload(1000 + i, kSlot).data());
  }
  rig.send(0, 1, frame_of(100, 2), payload(7, 100).data());
  rig.send(1, 0, frame_of(100, 1), payload(8, 100).data());
  rig.expect(1, 0, frame_of(100, 2), 7);
  rig.expect(0, 1, frame_of(100, 1), 8);
  for (uint32_t i = 0; i < many; ++i) {
    rig.expect(1, 0, frame_of(kSlot, 1), i);
    rig.expect(0, 1, frame_of(kSlot, 2), 1000 + i);
  }
}

TEST_CASE("shm: a sleeping reader is woken by a starving sender and gives back what it has not lent") {
  Rig rig(small_world, 2);
  const std::vector<std::byte> data = payload(3, kSlot);
  const uint32_t slots = slots_of(1);
  for (uint32_t i = 0; i < slots; ++i) REQUIRE(rig.link(0, 1).send(frame_of(kSlot), data.data(), 0) == Sent::done);
  put_to_sleep(rig, 1);
  REQUIRE(rig.link(0, 1).send(frame_of(kSlot), data.data(), 0) == Sent::again);
  REQUIRE(readable(rig.at(1).wait_fd()));
  put_to_sleep(rig, 0);
  rig.at(1).disarm();
  rig.progress(1);
  REQUIRE(readable(rig.at(0).wait_fd()));  // the release wakes the sender in turn
  rig.at(0).disarm();
  CHECK(rig.link(0, 1).send(frame_of(kSlot), data.data(), 0) == Sent::done);
  for (uint32_t i = 0; i <= slots; ++i) rig.expect(1, 0, frame_of(kSlot), 3);
}

TEST_CASE("shm: a full ring says again, and a sleeping sender is woken when there is room") {
  Rig rig(small_world, 2);
  const std::byte word[8] = {};
  uint32_t sent = 0;
  while (rig.link(0, 1).send(frame_of(8), word, 0) == Sent::done) REQUIRE(++sent <= shm::kRingEntries);
  CHECK(sent == shm::kRingEntries);
  put_to_sleep(rig, 0);
  Message message;
  for (uint32_t i = 0; i < sent; ++i) {
    REQUIRE(rig.link(1, 0).poll(key_of(frame_of(0)), &message));
    rig.link(1, 0).release(message);
  }
  REQUIRE(readable(rig.at(0).wait_fd()));
  rig.at(0).disarm();
  CHECK(rig.link(0, 1).send(frame_of(8), word, 0) == Sent::done);
}

TEST_CASE("shm: a commit into a full ring is kept, in order, and sent when there is room") {
  Rig rig(small_world, 2);
  for (uint64_t i = 0; i < shm::kRingEntries; ++i) rig.send(0, 1, frame_of(8), payload(i, 8).data());
  for (uint64_t i = 0; i < 5; ++i) {
    const Slot slot = rig.at(0).reserve(500, 1);
    REQUIRE(slot.data != nullptr);
    const std::vector<std::byte> data = payload(1000 + i, 500);
    std::copy(data.begin(), data.end(), slot.data);
    REQUIRE(rig.link(0, 1).commit(frame_of(500), slot) == Sent::done);
  }
  CHECK(rig.link(0, 1).send(frame_of(8), payload(1, 8).data(), 0) == Sent::again);
  for (uint64_t i = 0; i < shm::kRingEntries; ++i) rig.expect(1, 0, frame_of(8), i);
  for (uint64_t i = 0; i < 5; ++i) rig.expect(1, 0, frame_of(500), 1000 + i);
}

TEST_CASE("shm: one slot for two readers is free when both have released it or one is gone") {
  Rig rig(small_world, 3);
  const uint32_t slots = slots_of(2);
  const auto publish_all = [&] {
    for (uint32_t i = 0; i < slots; ++i) {
      const Slot slot = rig.at(0).reserve(64, 2);
      REQUIRE(slot.data != nullptr);
      REQUIRE(rig.link(0, 1).commit(frame_of(64), slot) == Sent::done);
      REQUIRE(rig.link(0, 2).commit(frame_of(64), slot) == Sent::done);
    }
  };
  publish_all();
  CHECK(rig.at(0).reserve(64, 1).data == nullptr);
  for (uint32_t i = 0; i < slots; ++i) rig.link(1, 0).release(rig.receive(1, 0, key_of(frame_of(0))));
  std::vector<Message> lent;
  for (uint32_t i = 0; i < slots; ++i) lent.push_back(rig.receive(2, 0, key_of(frame_of(0))));
  CHECK(rig.at(0).reserve(64, 1).data == nullptr);
  rig.kill(2);
  rig.until("the loss of rank 2", [&] { return !rig.link(0, 2).status().ok(); });
  for (uint32_t i = 0; i < slots; ++i) {
    const Slot slot = rig.at(0).reserve(64, 2);
    REQUIRE(slot.data != nullptr);
    REQUIRE(rig.link(0, 1).commit(frame_of(64), slot) == Sent::done);
    REQUIRE(rig.link(0, 2).commit(frame_of(64), slot) == Sent::failed);
  }
  for (uint32_t i = 0; i < slots; ++i) rig.link(1, 0).release(rig.receive(1, 0, key_of(frame_of(0))));
  const Slot half = rig.at(0).reserve(64, 2);
  REQUIRE(half.data != nullptr);
  rig.at(0).cancel(half);
  for (uint32_t i = 0; i < slots; ++i) CHECK(rig.at(0).reserve(64, 1).data != nullptr);
}

TEST_CASE("shm: a broken descriptor fails the endpoint and is never followed") {
  struct Case {
    const char* text;
    uint64_t mark;
    Frame frame;
  };
  const Case cases[] = {
      {"slot 16777215", shm::make_mark(1, shm::Carrier::slot, 0xffffff), frame_of(8)},
      {"bytes", shm::make_mark(1, shm::Carrier::slot, 0), frame_of(size_t{1} << 40)},
      {"81 bytes", shm::make_mark(1, shm::Carrier::inlined, 0), frame_of(81)},
      {"carrier 9", shm::make_mark(1, static_cast<shm::Carrier>(9), 0), frame_of(8)},
      {"frame version 7", shm::make_mark(1, shm::Carrier::inlined, 0), {.version = 7, .bytes = 8}},
      {"kind 5", shm::make_mark(1, shm::Carrier::inlined, 0), {.kind = static_cast<FrameKind>(5), .bytes = 8}},
  };
  for (const Case& broken : cases) {
    INFO(broken.text);
    Rig rig(small_world, 2);
    shm::Descriptor& descriptor = pair_of(1, 0).ring[0];
    descriptor.frame = broken.frame;
    descriptor.mark.store(broken.mark);
    check_broken(rig, 0, 1, broken.text);
    CHECK_THAT(rig.link(0, 1).status().text(), Catch::Matchers::Contains("rank 1 wrote a broken descriptor"));
  }
}

TEST_CASE("shm: counts that cannot be fail the endpoint") {
  SECTION("a slot is released that was never lent") {
    Rig rig(small_world, 2);
    rig.send(0, 1, frame_of(kSlot), payload(1, kSlot).data());
    pair_of(1, 0).releases[0].store(uint64_t{1} << 32 | 3);
    while (rig.link(0, 1).send(frame_of(kSlot), payload(1, kSlot).data(), 0) == Sent::done) {
    }
    check_broken(rig, 0, 1, "released slot 3");
  }
  SECTION("more messages are said to be taken than were sent") {
    Rig rig(small_world, 2);
    pair_of(1, 0).consumed.value.store(70'000);
    const std::byte word[8] = {};
    for (uint32_t i = 0; i <= shm::kRingEntries; ++i) (void)rig.link(0, 1).send(frame_of(8), word, 0);
    check_broken(rig, 0, 1, "70000");
  }
}

TEST_CASE("shm: only memory of a sealed size with a sane header is mapped") {
  using shm::Segment;
  auto geometry = shm::plan(kSmallSegment, kSlot, 1);
  REQUIRE(geometry.ok());
  UniqueFd fd;
  auto own = Segment::create(3, *geometry, &fd);
  REQUIRE(own.ok());
  const uint64_t bytes = geometry->segment_bytes;
  CHECK(Segment::open(fd.get(), bytes, 3).ok());
  CHECK(Segment::open(fd.get(), bytes + 4096, 3).status().code() == Code::peer);
  CHECK_THAT(Segment::open(fd.get(), bytes, 4).status().text(), Catch::Matchers::Contains("segment of rank 3"));

  SECTION("nobody else can write or resize it") {
    CHECK(mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, fd.get(), 0) == MAP_FAILED);
    CHECK(ftruncate(fd.get(), 4096) != 0);
    CHECK(ftruncate(fd.get(), static_cast<off_t>(bytes) * 2) != 0);
  }
  SECTION("a memfd that could shrink is refused") {
    auto loose = shm::make_memfd("test", bytes);
    REQUIRE(loose.ok());
    CHECK_THAT(Segment::open(loose->get(), bytes, 3).status().text(), Catch::Matchers::Contains("not sealed"));
  }
  SECTION("what is no memfd is refused") {
    int ends[2];
    REQUIRE(pipe(ends) == 0);
    UniqueFd read_end(ends[0]), write_end(ends[1]);
    CHECK_THAT(Segment::open(ends[0], bytes, 3).status().text(), Catch::Matchers::Contains("no memfd"));
  }
  SECTION("a layout that leads outside is refused") {
    shm::Geometry& there = (*own)->header().title.geometry;
    const shm::Geometry good = there;
    const auto refused = [&](auto change) {
      there = good;
      change();
      const bool result = Segment::open(fd.get(), bytes, 3).status().code() == Code::peer;
      there = good;
      return result;
    };
    CHECK(refused([&] { there.slots = shm::kMaxSlots; }));
    CHECK(refused([&] { there.slots_offset = UINT64_MAX - 127; }));
    CHECK(refused([&] { there.slot_stride = uint64_t{1} << 60; }));
    CHECK(refused([&] { there.slot_bytes = there.slot_stride + 1; }));
    CHECK(refused([&] { there.pairs = 4096; }));
    CHECK(refused([&] { there.pairs_offset = 64; }));
    CHECK(refused([&] { there.directory_offset = bytes - 128; }));
    CHECK(refused([&] { there.areas_bytes = bytes; }));
    CHECK(refused([&] { there.segment_bytes = bytes * 2; }));
    CHECK_FALSE(refused([] {}));
  }
  SECTION("another layout is refused") {
    (*own)->header().title.layout_version = 99;
    CHECK_THAT(Segment::open(fd.get(), bytes, 3).status().text(), Catch::Matchers::Contains("version 99"));
  }
}

TEST_CASE("shm: addresses of other hosts, namespaces and users are not tried") {
  auto made = make_shm({.identity = {.world = 2}});
  REQUIRE(made.ok());
  const std::string address = (*made)->address();
  CHECK((*made)->reaches(address).ok());
  for (const size_t at : {size_t{3}, address.find("net:") + 6, address.find('\n') - 1}) {
    std::string other = address;
    other[at] = other[at] == '7' ? '8' : '7';
    CHECK((*made)->reaches(other).code() == Code::unsupported);
  }
  CHECK_FALSE((*made)->reaches("").ok());
}

TEST_CASE("shm: options that make no sense are refused with numbers") {
  CHECK_THAT(make_shm({.segment_bytes = 1 << 16}).status().text(),
             Catch::Matchers::Contains("65536 bytes is too small"));
  CHECK(make_shm({.slot_bytes = 8}).status().code() == Code::invalid);
}

TEST_CASE("shm: a peer that never comes is named, by the deadline") {
  auto here = make_shm({.identity = {.job = 5, .rank = 0, .world = 2}});
  auto there = make_shm({.identity = {.job = 5, .rank = 1, .world = 2}});
  REQUIRE((here.ok() && there.ok()));
  const Peer peer{1, (*there)->address()};
  const Status status = (*here)->connect({&peer, 1}, Deadline::after_ms(100));
  CHECK(status.code() == Code::timeout);
  CHECK_THAT(status.text(), Catch::Matchers::Contains("1"));
  CHECK((*here)->connect({&peer, 1}, Deadline::after_ms(100)).code() == Code::invalid);
  CHECK((*here)->endpoint(1) == nullptr);
  CHECK((*here)->reserve(100, 1).data == nullptr);
  const Rank self = 0;
  CHECK_FALSE((*here)->share(1, {&self, 1}, 100, Writers::owner).ok());
}

TEST_CASE("shm: an area that its owner has closed is still found by a late member") {
  Rig rig(small_world, 2);
  const Rank members[] = {0, 1};
  auto early = rig.at(0).share(5, members, 300, Writers::owner);
  REQUIRE(early.ok());
  (*early)->mine()[0] = std::byte{42};
  early->reset();
  auto late = rig.at(1).share(5, members, 300, Writers::owner);
  REQUIRE(late.ok());
  const std::byte* piece = (*late)->of(0);
  REQUIRE(piece != nullptr);
  CHECK(piece[0] == std::byte{42});
  // The next area of the same name is another one.
  auto next = rig.at(1).share(5, members, 300, Writers::owner);
  REQUIRE(next.ok());
  CHECK((*next)->of(0) == nullptr);
}

TEST_CASE("shm: the room of closed areas is used again, zeroed and joined") {
  Rig rig(small_world, 2);
  const Rank members[] = {0, 1};
  const size_t room = kSmallSegment / 8;
  CHECK(rig.at(0).share(1, members, room + 1, Writers::owner).status().code() == Code::no_memory);
  for (int round = 0; round < 3; ++round) {
    std::vector<std::unique_ptr<SharedArea>> areas;
    for (uint64_t id = 0;; ++id) {
      auto area = rig.at(0).share(100 + id, members, room / 8, Writers::owner);
      if (!area.ok()) {
        CHECK(area.status().code() == Code::no_memory);
        break;
      }
      std::byte* mine = (*area)->mine();
      CHECK(std::all_of(mine, mine + room / 8, [](std::byte b) { return b == std::byte{0}; }));
      std::fill_n(mine, room / 8, std::byte{0xff});
      areas.push_back(std::move(*area));
    }
    CHECK(areas.size() == 8);
    areas.clear();
    auto whole = rig.at(0).share(99, members, room, Writers::owner);
    CHECK(whole.ok());
  }
}

TEST_CASE("shm: a closed area whose room is in use again is not found any more") {
  Rig rig(small_world, 2);
  const Rank members[] = {0, 1};
  const size_t room = kSmallSegment / 8;
  rig.at(0).share(1, members, room, Writers::owner)->reset();
  auto late = rig.at(1).share(1, members, room, Writers::owner);
  REQUIRE(late.ok());
  auto other = rig.at(0).share(2, members, room, Writers::owner);
  REQUIRE(other.ok());
  CHECK((*late)->of(0) == nullptr);
}

TEST_CASE("shm: thousands of areas come and go, and every one is found") {
  Rig rig(small_world, 2);
  const Rank members[] = {0, 1};
  for (uint64_t id = 0; id < 3000; ++id) {
    auto here = rig.at(0).share(id, members, 700, Writers::owner);
    auto there = rig.at(1).share(id, members, 700, Writers::owner);
    REQUIRE((here.ok() && there.ok()));
    (*here)->mine()[699] = static_cast<std::byte>(id);
    const std::byte* piece = (*there)->of(0);
    REQUIRE(piece != nullptr);
    REQUIRE(piece[699] == static_cast<std::byte>(id));
    REQUIRE((*here)->of(1) != nullptr);
  }
}

TEST_CASE("shm: memory that the host cannot have is refused, and only allocations are freed") {
  auto made = make_shm({.identity = {.world = 1}});
  REQUIRE(made.ok());
  CHECK((*made)->alloc(size_t{1} << 60).status().code() == Code::no_memory);
  CHECK((*made)->alloc(SIZE_MAX).status().code() == Code::no_memory);
  auto memory = (*made)->alloc(5000);
  REQUIRE(memory.ok());
  CHECK((*made)->free(static_cast<std::byte*>(*memory) + 128).code() == Code::invalid);
  CHECK((*made)->free(*memory).ok());
  CHECK((*made)->free(*memory).code() == Code::invalid);
}
