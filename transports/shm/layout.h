// What lies in a segment, and where. Every word has one writer, the segment's owner; all others read. Lines that
// different readers or different events touch are kept 128 bytes apart (two cache lines: the adjacent-line prefetcher
// fetches both).
//
//   Header | Pair per peer | area directory | areas | slots
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>

#include "base/status.h"
#include "transport/frame.h"

namespace rondo::shm {

inline constexpr size_t kLine = 128;
inline constexpr uint64_t kMagic = 0x31476d68536f6452;  // "RdoShmG1"
inline constexpr uint32_t kLayoutVersion = 1;
inline constexpr uint32_t kRingEntries = 256;
inline constexpr uint32_t kInlineBytes = 80;
inline constexpr uint32_t kMaxSlots = 2048;      // also the entries of a release ring, see SlotPool::room()
inline constexpr uint32_t kMaxReferences = 256;  // of heap memory, lent to one peer at a time
// In a release ring: not a slot but a reference of that number.
inline constexpr uint32_t kReferenceBit = 0x80000000;
inline constexpr uint32_t kAreaEntries = 1024;
inline constexpr uint32_t kMaxPairs = 4096;

static_assert(std::atomic<uint64_t>::is_always_lock_free && std::atomic<uint32_t>::is_always_lock_free);

// What a descriptor's payload is.
enum class Carrier : uint8_t {
  inlined = 1,    // it stands in the descriptor
  slot = 2,       // in the slot of that index
  reference = 3,  // in the sender's heap, at the offset that stands in the descriptor; the index names the loan
};

// One message on its way. `mark` is written last: the message's number in the ring (from 1, 32 bits) << 32 | carrier <<
// 24 | slot index. 16 bytes of payload share the first cache line with it.
struct alignas(kLine) Descriptor {
  std::atomic<uint64_t> mark;
  Frame frame;
  std::byte payload[kInlineBytes];
};
static_assert(sizeof(Descriptor) == kLine);

constexpr uint64_t make_mark(uint32_t number, Carrier carrier, uint32_t index) {
  return static_cast<uint64_t>(number) << 32 | static_cast<uint64_t>(carrier) << 24 | index;
}
constexpr uint32_t number_of(uint64_t mark) { return static_cast<uint32_t>(mark >> 32); }
constexpr Carrier carrier_of(uint64_t mark) { return static_cast<Carrier>(mark >> 24 & 0xff); }
constexpr uint32_t index_of(uint64_t mark) { return static_cast<uint32_t>(mark & 0xffffff); }

struct alignas(kLine) Word {
  std::atomic<uint32_t> value;
};

// What the owner writes for one peer.
struct Pair {
  alignas(kLine) uint64_t nonce[2];  // proof of locality: whoever can tell it has mapped this segment
  Word consumed;                     // how many descriptors of the peer's ring the owner has taken
  Word blocked;                      // nonzero: a send to this peer waits for room in the ring
  Descriptor ring[kRingEntries];     // messages to the peer
  // The peer's slots (and references) that the owner has finished reading: number (from 1) << 32 | slot index.
  alignas(kLine) std::atomic<uint64_t> releases[kMaxSlots];
};

enum class AreaState : uint8_t { none = 0, open = 1, closed = 2 };

// One piece of a shared area. `state` (rising number << 2 | AreaState) is written last, and changes when anything does.
struct AreaEntry {
  std::atomic<uint64_t> state;
  std::atomic<uint64_t> id;
  std::atomic<uint64_t> instance;  // how often the owner had shared this id before
  std::atomic<uint64_t> offset;    // in the segment; with its top bit set: in the heap
  std::atomic<uint64_t> bytes;
};

struct Geometry {
  uint64_t segment_bytes = 0;
  uint64_t slot_bytes = 0;
  uint64_t slot_stride = 0;
  uint64_t pairs_offset = 0;
  uint64_t directory_offset = 0;
  uint64_t areas_offset = 0;
  uint64_t areas_bytes = 0;
  uint64_t slots_offset = 0;
  uint32_t pairs = 0;
  uint32_t slots = 0;

  bool operator==(const Geometry&) const = default;
};

// What a segment says about itself; plain values, written once before anybody else maps it.
struct Title {
  uint64_t magic = kMagic;
  uint32_t layout_version = kLayoutVersion;
  uint32_t rank = 0;
  Geometry geometry;
};

struct Header {
  Title title;
  Word sleeping;   // odd: the owner sleeps or is about to; every sleep has a new number
  Word starving;   // nonzero: the owner's slots are all out
  Word directory;  // rises with every change of the area directory
  Word wakes;      // stored before the owner looks who sleeps while it waits for a change of an area
};

// The layout of a segment for so many peers. invalid: the budget is too small, and what would be enough.
Result<Geometry> plan(size_t segment_bytes, size_t slot_bytes, uint32_t pairs);
// Whether a geometry that a peer wrote fits a segment of `segment_bytes` bytes: nothing that is computed from it later
// can lead outside.
Status check(const Geometry& geometry, uint64_t segment_bytes);

}  // namespace rondo::shm
