// SlotPool: this rank's slots. A slot is handed out for some number of readers, published to each, and free again when
// all have released it; readers say so in release rings of their own segments, which are read only when slots are
// wanted. Recycled slots are used before fresh ones, so that the memory in use stays small and warm. Lease holder only.
#pragma once

#include <array>
#include <atomic>
#include <cstdint>
#include <memory>
#include <vector>

#include "base/status.h"
#include "base/types.h"
#include "transports/shm/bell.h"
#include "transports/shm/segment.h"

namespace rondo::shm {

class SlotPool {
 public:
  explicit SlotPool(Segment& own);

  // A peer that will release slots through `releases` (in its segment). Returns its number, counting from 0.
  uint32_t add_reader(Rank rank, const std::atomic<uint64_t>* releases, Bell& bell);

  // A free slot for `readers` readers (at least 1), or -1: then all readers have been asked to give back what they can.
  int32_t take(uint32_t readers);
  // Publishing to one reader: whether its release ring has room for one more.
  bool room(uint32_t reader) const { return readers_[reader].outstanding < kMaxSlots; }
  void lent(uint32_t reader, uint32_t slot);
  // The same for heap memory: reference numbers below kMaxReferences, chosen by the caller.
  void lent_reference(uint32_t reader, uint32_t reference);
  // References that the reader has released since the caller last emptied the list.
  std::vector<uint32_t>& returned(uint32_t reader) { return readers_[reader].returned; }
  // One of the readers will not get the slot after all.
  void skip(uint32_t slot);
  // None of the readers that have not got it yet will.
  void cancel(uint32_t slot);

  // Takes in what readers have released; whether anything came.
  bool reclaim();
  bool reclaim(uint32_t reader) { return reclaim(readers_[reader]); }
  // Asks all readers to give back what nobody there has asked for yet, until the next take() or sated().
  void starve();
  void sated();
  bool starving() const { return starving_; }
  // Whether a reclaim would find anything. seq_cst look, for the last check before sleeping.
  bool released() const;
  // The reader is gone: what it held is free.
  void drop_reader(uint32_t reader);
  // The link to the reader has failed: the memory of references is its owner's again. Slots stay out of use, as the
  // reader may still look at them.
  void drop_references(uint32_t reader);
  // Ok, or what the reader's release ring has wrongly said.
  const Status& complaint(uint32_t reader) const { return readers_[reader].complaint; }
  uint32_t outstanding(uint32_t reader) const { return readers_[reader].outstanding; }

 private:
  struct SlotState {
    uint32_t holders = 0;  // readers that have it or will get it
    uint32_t unlent = 0;   // those that will
  };
  struct Reader {
    Rank rank = 0;
    const std::atomic<uint64_t>* releases = nullptr;  // null: gone
    Bell* bell = nullptr;
    uint32_t next = 0;         // releases taken in so far
    uint32_t outstanding = 0;  // slots lent to this reader
    Status complaint;
    std::array<uint8_t, kMaxSlots> lent{};  // by slot: how often this reader has it
    std::array<bool, kMaxReferences> lent_references{};
    std::vector<uint32_t> returned;
  };

  bool reclaim(Reader& reader);
  bool take_back(Reader& reader, uint32_t what);
  void unhold(uint32_t slot, uint32_t holders);

  Segment& own_;
  const uint32_t slots_;
  uint32_t fresh_ = 0;  // slots from here on have never been used
  bool starving_ = false;
  std::vector<SlotState> states_;
  std::vector<uint32_t> warm_;  // a stack
  std::vector<Reader> readers_;
};

}  // namespace rondo::shm
