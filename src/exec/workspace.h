// What lies in one member's piece of a workspace (SharedSum). Lines that different ranks write, or that different
// events touch, are 128 bytes apart. All counters only rise.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>

namespace rondo {

struct Workspace {
  static constexpr uint32_t kSlots = 8;  // rounds in flight
  static constexpr size_t kSlotBytes = size_t{256} << 10;
  static constexpr uint32_t kMostPieces = 64;  // of a round

  struct alignas(128) Line {
    std::atomic<uint64_t> value;
  };
  // What the owner says on entering a turn; two in turn. Everything before `turn`, which is stored last.
  struct alignas(128) Entry {
    std::atomic<uint64_t> turn;
    uint64_t fingerprint;
    uint64_t input, output;  // places of the buffers + 1; 0: the others cannot reach them
  };
  // Rounds, over all turns, that the owner has copied in, has summed its part of, has copied out; turns it has left. A
  // line each.
  struct Flags {
    alignas(128) std::atomic<uint64_t> put;
    alignas(128) std::atomic<uint64_t> summed;
    alignas(128) std::atomic<uint64_t> taken;
    alignas(128) std::atomic<uint64_t> left;
  };
  struct alignas(128) Slot {
    std::byte data[kSlotBytes];
    // Slots of a power of two would all begin in the same few sets of the caches.
    std::byte gap[128];
  };

  Entry entries[2];
  Flags flags;
  // Claimed sums, in the piece of member 0. `tickets`: round + 1 << 16 | pieces claimed; `done`: pieces summed in the
  // slot.
  Line tickets[kSlots], done[kSlots];
  // In place: turn << 24 | pieces claimed of the owner's part; pieces summed in all turns, in the piece of member 0.
  Line part_tickets, parts_done;
  // Not 0 while the owner holds a claim.
  Line holds;
  Slot inputs[kSlots];
  // The owner's sums, or (claims, in the piece of member 0) everybody's.
  Slot results[kSlots];
};

}  // namespace rondo
