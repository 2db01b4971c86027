#include "transports/shm/pool.h"

#include <utility>

namespace rondo::shm {

SlotPool::SlotPool(Segment& own) : own_(own), slots_(own.geometry().slots), states_(slots_) { warm_.reserve(slots_); }

uint32_t SlotPool::add_reader(Rank rank, const std::atomic<uint64_t>* releases, Bell& bell) {
  Reader& reader = readers_.emplace_back();
  reader.rank = rank;
  reader.releases = releases;
  reader.bell = &bell;
  reader.returned.reserve(kMaxReferences);
  return static_cast<uint32_t>(readers_.size() - 1);
}

int32_t SlotPool::take(uint32_t readers) {
  if (warm_.empty()) reclaim();
  uint32_t slot = 0;
  if (!warm_.empty()) {
    slot = warm_.back();
    warm_.pop_back();
  } else if (fresh_ < slots_) {
    slot = fresh_++;
  } else {
    starve();
    if (warm_.empty()) return -1;
    slot = warm_.back();
    warm_.pop_back();
  }
  sated();
  states_[slot] = {readers, readers};
  return static_cast<int32_t>(slot);
}

void SlotPool::sated() {
  if (!starving_) return;
  starving_ = false;
  // Relaxed: a reader that still sees the old value only gives back early.
  own_.header().starving.value.store(0, std::memory_order_relaxed);
}

void SlotPool::starve() {
  if (!starving_) {
    starving_ = true;
    // seq_cst: pairs with the load of `starving` after a release in ShmEndpoint::give_back(): either the reader sees
    // that this rank starves and rings, or released() and the reclaim() below see what it released.
    own_.header().starving.value.store(1, std::memory_order_seq_cst);
    for (Reader& reader : readers_)
      if (reader.outstanding > 0) reader.bell->ring_if_asleep();
  }
  reclaim();
}

void SlotPool::lent(uint32_t reader, uint32_t slot) {
  RONDO_DCHECK(states_[slot].unlent > 0);
  --states_[slot].unlent;
  ++readers_[reader].lent[slot];
  ++readers_[reader].outstanding;
}

void SlotPool::lent_reference(uint32_t reader, uint32_t reference) {
  readers_[reader].lent_references[reference] = true;
  ++readers_[reader].outstanding;
}

void SlotPool::skip(uint32_t slot) {
  RONDO_DCHECK(states_[slot].unlent > 0);
  --states_[slot].unlent;
  unhold(slot, 1);
}

void SlotPool::cancel(uint32_t slot) {
  const uint32_t unlent = states_[slot].unlent;
  states_[slot].unlent = 0;
  unhold(slot, unlent);
}

void SlotPool::unhold(uint32_t slot, uint32_t holders) {
  if (holders == 0) return;
  states_[slot].holders -= holders;
  if (states_[slot].holders == 0) warm_.push_back(slot);
}

bool SlotPool::reclaim() {
  bool any = false;
  for (Reader& reader : readers_)
    if (reader.outstanding > 0) any |= reclaim(reader);
  return any;
}

bool SlotPool::reclaim(Reader& reader) {
  bool any = false;
  while (reader.outstanding > 0 && reader.complaint.ok()) {
    // Acquire: pairs with the store in ShmEndpoint::give_back(); the reader's reads of the slot are over.
    const uint64_t word = reader.releases[reader.next % kMaxSlots].load(std::memory_order_acquire);
    if (static_cast<uint32_t>(word >> 32) != reader.next + 1) break;
    if (!take_back(reader, static_cast<uint32_t>(word))) break;
    ++reader.next;
    --reader.outstanding;
    any = true;
  }
  return any;
}

// What a reader says it has released is believed only if it had it.
bool SlotPool::take_back(Reader& reader, uint32_t what) {
  if ((what & kReferenceBit) != 0) {
    const uint32_t reference = what & ~kReferenceBit;
    if (reference < kMaxReferences && reader.lent_references[reference]) {
      reader.lent_references[reference] = false;
      reader.returned.push_back(reference);
      return true;
    }
  } else if (what < slots_ && reader.lent[what] > 0) {
    --reader.lent[what];
    unhold(what, 1);
    return true;
  }
  reader.complaint = fail(Code::peer, "shm: rank {} released {} {}, which it does not hold", reader.rank,
                          (what & kReferenceBit) != 0 ? "reference" : "slot", what & ~kReferenceBit);
  return false;
}

bool SlotPool::released() const {
  for (const Reader& reader : readers_) {
    if (reader.outstanding == 0 || !reader.complaint.ok()) continue;
    // seq_cst: the look after the store of `sleeping` in ShmTransport::arm(); pairs with give_back()'s seq_cst store.
    const uint64_t word = reader.releases[reader.next % kMaxSlots].load(std::memory_order_seq_cst);
    if (static_cast<uint32_t>(word >> 32) == reader.next + 1) return true;
  }
  return false;
}

void SlotPool::drop_reader(uint32_t index) {
  Reader& reader = readers_[index];
  for (uint32_t slot = 0; slot < slots_; ++slot) {
    unhold(slot, std::exchange(reader.lent[slot], 0));
  }
  drop_references(index);
  reader.outstanding = 0;
}

void SlotPool::drop_references(uint32_t index) {
  Reader& reader = readers_[index];
  for (uint32_t reference = 0; reference < kMaxReferences; ++reference) {
    if (!std::exchange(reader.lent_references[reference], false)) continue;
    reader.returned.push_back(reference);
    --reader.outstanding;
  }
}

}  // namespace rondo::shm
