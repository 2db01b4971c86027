// What lies in one member's piece of a workspace (SharedCollective). Lines that different ranks write, or that
// different events touch, are 128 bytes apart. All counters only rise.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>

namespace rondo {

struct Workspace {
  static constexpr uint32_t kRounds = 8;                    // in flight
  static constexpr size_t kRoundBytes = size_t{128} << 10;  // at most
  static constexpr uint32_t kMostPieces = 64;               // of a round
  // Rounds follow each other in a ring, whatever their size, so that a line is written again only when it has long left
  // the caches of the cores that read it: taking a line back from another core costs twice as much as from the cache
  // that all share. With room for two more rounds than are in flight, one that begins at the ring's start again never
  // meets one that is.
  static constexpr size_t kGap = 128;
  static constexpr size_t kRingBytes = (kRounds + 2) * (kRoundBytes + kGap);
  // Rings of different members begin at different offsets of a page: what is read from all of them at once would
  // otherwise lie in the same few sets of the caches.
  static constexpr size_t kStagger = 320;
  static constexpr uint32_t kStaggers = 12;
  static constexpr size_t stagger(uint32_t member) { return member % kStaggers * kStagger; }

  struct alignas(128) Line {
    std::atomic<uint64_t> value;
  };
  static constexpr uint32_t kEntries = 64;  // the root of broadcasts may be so many turns ahead
  static constexpr size_t kPayloadBytes = 96;
  static constexpr uint32_t kTicketBits = 24;
  // What the owner says on entering a turn. Everything before `turn`, which is stored last.
  struct alignas(128) Entry {
    std::atomic<uint64_t> turn;
    uint64_t fingerprint;
    uint64_t input, output;  // places of the buffers + 1; 0: the others cannot reach them
    // What the owner gives, where that is small; instead of the places, and in the same line as far as it fits.
    std::byte payload[kPayloadBytes];
  };
  static_assert(sizeof(Entry) == 128);
  // Rounds, over all turns, that the owner has put, has summed its part of, has done with; turns it has left. A line
  // each.
  struct Flags {
    alignas(128) std::atomic<uint64_t> put;
    alignas(128) std::atomic<uint64_t> summed;
    alignas(128) std::atomic<uint64_t> retired;
    alignas(128) std::atomic<uint64_t> left;
  };
  struct alignas(4096) Ring {
    std::byte data[kRingBytes + kStaggers * kStagger];
  };

  Entry entries[kEntries];
  Flags flags;
  // Claimed sums, in the piece of member 0, by round mod kRounds. `tickets`: round + 1 << 24 | pieces claimed; `done`:
  // pieces summed, over all rounds.
  Line tickets[kRounds], done[kRounds];
  // In place: turn << 24 | pieces claimed of the owner's part; pieces summed in all turns, in the piece of member 0.
  Line part_tickets, parts_done;
  // Not 0 while the owner holds a claim.
  Line holds;
  Ring inputs;
  // The owner's sums, or (claims, in the piece of member 0) everybody's.
  Ring results;
};

}  // namespace rondo
