// Cells: the layout and the inline operations of the one-shot exchange, on top of SharedArea memory. Each member owns
// two alternating cells; turn k is written to cell k mod 2, payload first, its flag word last. A payload of up to
// kFlagLineBytes lies in the flag's own cache line, so that one line transfer delivers everything.
//
// Reuse rule: turns rise by one from 1 and are never reset, and turn k + 1 is published only after turn k has completed
// locally, that is, after every member's payload of turn k has been read. Then whoever publishes k + 2 knows that all
// members have left turn k, and the cell is free. One thread at a time uses a Cells.
#pragma once

#include <sched.h>

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "base/check.h"
#include "transport/moves.h"

namespace rondo {

class Cells {
 public:
  static constexpr size_t kPayloadBytes = 16384;
  static constexpr size_t kFlagLineBytes = 48;
  static constexpr uint32_t kNoCpu = 0xffff;

  // What one look at a member's cell has found.
  struct Seen {
    const std::byte* payload = nullptr;  // null: the member has not published this turn yet
    uint64_t fingerprint = 0;
    uint32_t bytes = 0;
    uint32_t cpu = kNoCpu;  // where the writer last ran, known also while the payload is null (kNoCpu: never published)
  };

  // Bytes of one member's piece of the area; it does not depend on how many members there are.
  static constexpr size_t area_bytes(uint32_t /*members*/) { return 2 * sizeof(Cell); }

  // `mine` and `pieces` (one per member, this one included, none null) are zeroed at the start, 128-byte aligned, of
  // area_bytes() each, and outlive this object.
  void bind(std::byte* mine, std::span<const std::byte* const> pieces) {
    mine_ = reinterpret_cast<Cell*>(mine);
    pieces_.clear();
    for (const std::byte* piece : pieces) pieces_.push_back(reinterpret_cast<const Cell*>(piece));
  }
  bool bound() const { return mine_ != nullptr; }
  uint32_t members() const { return static_cast<uint32_t>(pieces_.size()); }

  // bytes <= kPayloadBytes. The payload is copied.
  void publish(uint64_t turn, uint64_t fingerprint, const void* payload, size_t bytes) {
    RONDO_DCHECK(bytes <= kPayloadBytes);
    Cell& cell = mine_[turn & 1];
    cell.fingerprint = fingerprint;
    copy_moves(cell.payload, static_cast<const std::byte*>(payload), bytes);
    // Release: fingerprint and payload above are visible to whoever reads the flag with acquire in ready().
    cell.flag.store(flag_of(turn, bytes), std::memory_order_release);
  }

  // The room for the payload of `turn` in this rank's own cell: a kernel may write there before publish_placed().
  std::byte* room(uint64_t turn) { return mine_[turn & 1].payload; }
  void publish_placed(uint64_t turn, uint64_t fingerprint, size_t bytes) {
    Cell& cell = mine_[turn & 1];
    cell.fingerprint = fingerprint;
    // Release: as in publish(), for the acquire in ready().
    cell.flag.store(flag_of(turn, bytes), std::memory_order_release);
  }

  // Whether the member has published the turn. Looks at one line only: a look at the member's other cell, as ready()
  // takes for the whereabouts, would make the member's next publication fetch that line back.
  bool arrived(uint32_t member, uint64_t turn) const {
    // Relaxed: a look; ready() synchronises.
    const uint64_t flag = pieces_[member][turn & 1].flag.load(std::memory_order_relaxed);
    return static_cast<uint32_t>(flag >> 32) == static_cast<uint32_t>(turn);
  }

  Seen ready(uint32_t member, uint64_t turn) const {
    const Cell& cell = pieces_[member][turn & 1];
    // Acquire: pairs with the release in publish(); the payload of this turn is complete when the turn matches.
    const uint64_t flag = cell.flag.load(std::memory_order_acquire);
    Seen seen;
    if (static_cast<uint32_t>(flag >> 32) == static_cast<uint32_t>(turn)) {
      const uint32_t bytes = static_cast<uint32_t>(flag & 0xffff);
      if (bytes <= kPayloadBytes) seen = {cell.payload, cell.fingerprint, bytes, cpu_of(flag)};
      return seen;
    }
    // The other cell holds the turn before, hence the member's latest whereabouts. Relaxed: a hint only.
    const uint64_t other = pieces_[member][(turn & 1) ^ 1].flag.load(std::memory_order_relaxed);
    seen.cpu = cpu_of(other);
    return seen;
  }

 private:
  struct alignas(128) Cell {
    std::atomic<uint64_t> flag;  // turn (low 32 bits of it) << 32 | cpu + 1 << 16 | bytes
    uint64_t fingerprint;
    std::byte payload[kPayloadBytes];
  };
  static_assert(std::atomic<uint64_t>::is_always_lock_free);
  static_assert(kPayloadBytes <= 0xffff);

  static uint64_t flag_of(uint64_t turn, size_t bytes) {
    const int cpu = sched_getcpu();
    const uint64_t mark = cpu < 0 || cpu >= static_cast<int>(kNoCpu) ? 0 : static_cast<uint64_t>(cpu) + 1;
    return turn << 32 | mark << 16 | bytes;
  }
  static uint32_t cpu_of(uint64_t flag) {
    const uint32_t mark = static_cast<uint32_t>(flag >> 16) & 0xffff;
    return mark == 0 ? kNoCpu : mark - 1;
  }

  Cell* mine_ = nullptr;
  std::vector<const Cell*> pieces_;
};

}  // namespace rondo
