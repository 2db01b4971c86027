#include "transports/shm/endpoint.h"

#include <sys/socket.h>

#include <cerrno>
#include <cstring>
#include <utility>

#include "base/check.h"
#include "transport/moves.h"

namespace rondo::shm {

namespace {

constexpr uint32_t kMask = kRingEntries - 1;
static_assert((kRingEntries & kMask) == 0);
constexpr uint32_t kTellEvery = 64;   // descriptors taken before the peer is told of the room
constexpr uint32_t kDrainAfter = 96;  // descriptors waiting before they are drawn out for the room's sake
constexpr size_t kBacklogReserve = 64;
constexpr size_t kReferenceBytes = 16 << 10;  // below this a copy costs less than waiting for the peer

// Message::handle: what release() has to give back.
enum class Holder : uint8_t { nothing = 0, slot = 1, small = 2, large = 3, reference = 4 };
constexpr uint64_t make_handle(Holder holder, uint32_t index) { return static_cast<uint64_t>(holder) << 32 | index; }
constexpr Holder holder_of(uint64_t handle) { return static_cast<Holder>(handle >> 32); }

}  // namespace

ShmEndpoint::ShmEndpoint(Link link, Segment& own, SlotPool& pool, Heap* heap)
    : link_(std::move(link)),
      own_(own),
      pool_(pool),
      mine_(own.pair(link_.pair_here)),
      theirs_(link_.segment->pair(link_.pair_there)),
      peer_starving_(link_.segment->header().starving.value),
      peer_slot_bytes_(link_.segment->geometry().slot_bytes),
      peer_slots_(link_.segment->geometry().slots),
      copy_(kernels::best().copy),
      bell_(link_.socket.get(), link_.segment->header().sleeping.value),
      reader_(pool.add_reader(link_.rank, theirs_.releases, bell_)),
      heap_(link_.maps_heap ? heap : nullptr),
      staging_(kInlineBytes, peer_slot_bytes_) {
  backlog_.reserve(kBacklogReserve);
  if (heap_ == nullptr) return;
  references_.resize(kMaxReferences);
  for (uint32_t i = kMaxReferences; i > 0; --i) free_references_.push_back(i - 1);
}

// ---- to the peer ----

bool ShmEndpoint::room() {
  if (tail_ - consumed_seen_ < kRingEntries) return true;
  // Acquire: pairs with the store in publish_consumed(); the peer has read those descriptors and they may be written.
  return see_consumed(theirs_.consumed.value.load(std::memory_order_acquire)) && tail_ - consumed_seen_ < kRingEntries;
}

// Takes in the peer's count; whether it says anything new. A count that cannot be breaks the link.
bool ShmEndpoint::see_consumed(uint32_t consumed) {
  if (tail_ - consumed > kRingEntries) {
    break_link(fail(Code::peer, "shm: rank {} says it has taken {} messages of {}", rank(), consumed, tail_));
    return false;
  }
  return std::exchange(consumed_seen_, consumed) != consumed;
}

void ShmEndpoint::want_room() {
  if (blocked_) return;
  blocked_ = true;
  // seq_cst: pairs with the load in publish_consumed(): either the peer sees that this rank is blocked and rings, or
  // the look before sleeping sees what it has taken.
  mine_.blocked.value.store(1, std::memory_order_seq_cst);
  bell_.ring_if_asleep();
}

void ShmEndpoint::publish(Descriptor& descriptor, Carrier carrier, uint32_t index) {
  ++tail_;
  // seq_cst: as a release it makes frame and payload visible to the acquire in next(); in the one order it pairs with
  // the sleeper's store of `sleeping`, see Bell.
  descriptor.mark.store(make_mark(tail_, carrier, index), std::memory_order_seq_cst);
  bell_.ring_if_asleep();
  if (!blocked_) return;
  blocked_ = false;
  // Relaxed: a peer that still sees the old value rings once too often.
  mine_.blocked.value.store(0, std::memory_order_relaxed);
}

bool ShmEndpoint::push_slot(const Frame& frame, uint32_t slot) {
  if (!room() || !pool_.room(reader_)) {
    want_room();
    return false;
  }
  Descriptor& descriptor = mine_.ring[tail_ & kMask];
  descriptor.frame = frame;
  pool_.lent(reader_, slot);
  publish(descriptor, Carrier::slot, slot);
  return true;
}

Sent ShmEndpoint::send(const Frame& frame, const std::byte* data, Token token) {
  if (!usable()) return Sent::failed;
  if ((has_backlog() && !flush_backlog()) || !room()) {
    want_room();
    return status_.ok() ? Sent::again : Sent::failed;
  }
  if (frame.bytes <= kInlineBytes) {
    Descriptor& descriptor = mine_.ring[tail_ & kMask];
    descriptor.frame = frame;
    copy_moves(descriptor.payload, data, frame.bytes);
    publish(descriptor, Carrier::inlined, 0);
    return Sent::done;
  }
  RONDO_CHECK(frame.bytes <= own_.geometry().slot_bytes);
  uint64_t offset = 0;
  if (heap_ != nullptr && frame.bytes >= kReferenceBytes && heap_->locate(data, frame.bytes, &offset))
    return send_reference(frame, offset, token);
  const int32_t taken = pool_.room(reader_) ? pool_.take(1) : -1;
  if (taken < 0) return Sent::again;
  const uint32_t slot = static_cast<uint32_t>(taken);
  copy_(own_.slot(slot), nullptr, data, frame.bytes);
  push_slot(frame, slot);
  return Sent::done;
}

// Publishes memory of the heap where it lies; the peer names the reference when it has read it.
Sent ShmEndpoint::send_reference(const Frame& frame, uint64_t offset, Token token) {
  if (free_references_.empty() || !pool_.room(reader_)) {
    pool_.starve();
    return Sent::again;
  }
  pool_.sated();
  const uint32_t index = free_references_.back();
  free_references_.pop_back();
  references_[index] = {.token = token, .offset = offset, .bytes = frame.bytes, .live = true};
  ++pending_;
  heap_->hold(offset);
  pool_.lent_reference(reader_, index);
  Descriptor& descriptor = mine_.ring[tail_ & kMask];
  descriptor.frame = frame;
  std::memcpy(descriptor.payload, &offset, sizeof offset);
  publish(descriptor, Carrier::reference, index);
  return Sent::pending;
}

// Completes the sends whose memory the peer has read; when the link has ended, all of them.
bool ShmEndpoint::complete(std::vector<Completion>& completions) {
  if (pending_ == 0) return false;
  pool_.reclaim(reader_);
  if (broken_) pool_.drop_references(reader_);
  std::vector<uint32_t>& returned = pool_.returned(reader_);
  for (const uint32_t index : returned) {
    Reference& reference = references_[index];
    heap_->unhold(reference.offset);
    completions.push_back({reference.token});
    reference.live = false;
    free_references_.push_back(index);
    --pending_;
  }
  const bool any = !returned.empty();
  returned.clear();
  return any;
}

// The peer may read the payload at any time: what the owner of the memory writes from now on must not reach it.
void ShmEndpoint::detach(Token token) {
  for (const Reference& reference : references_) {
    if (!reference.live || reference.token != token) continue;
    Status parted = heap_->part(reference.offset, reference.bytes);
    if (!parted.ok()) break_link(std::move(parted));
  }
}

Sent ShmEndpoint::commit(const Frame& frame, const Slot& slot) {
  const uint32_t index = static_cast<uint32_t>(slot.handle);
  RONDO_CHECK(frame.bytes <= slot.bytes);
  if (!usable()) {
    pool_.skip(index);
    return Sent::failed;
  }
  if ((has_backlog() && !flush_backlog()) || !push_slot(frame, index)) backlog_.push_back({frame, index});
  return Sent::done;
}

bool ShmEndpoint::flush_backlog() {
  while (has_backlog()) {
    const Waiting& waiting = backlog_[backlog_at_];
    if (!push_slot(waiting.frame, waiting.slot)) return false;
    ++backlog_at_;
  }
  backlog_.clear();
  backlog_at_ = 0;
  return true;
}

// ---- from the peer ----

bool ShmEndpoint::next(Message* message) {
  if (broken_) return false;
  const Descriptor& descriptor = theirs_.ring[head_ & kMask];
  // Acquire: pairs with the store in publish(); frame and payload are complete when the number is the expected one.
  const uint64_t mark = descriptor.mark.load(std::memory_order_acquire);
  if (number_of(mark) != head_ + 1) return false;
  if (!accept(descriptor, mark, message)) return false;
  ++head_;
  if (head_ - consumed_told_ >= kTellEvery) publish_consumed();
  return true;
}

// The peer's memory may hold anything: it is copied first, checked in the copy, and only the copy is used.
bool ShmEndpoint::accept(const Descriptor& descriptor, uint64_t mark, Message* message) {
  message->frame = descriptor.frame;
  message->placed = false;
  const Frame& frame = message->frame;
  const uint32_t index = index_of(mark);
  const bool sane = frame.version == kFrameVersion && (frame.kind == FrameKind::step || frame.kind == FrameKind::user);
  if (sane && carrier_of(mark) == Carrier::inlined && frame.bytes <= kInlineBytes) {
    uint32_t small = 0;
    std::byte* data = staging_.small(&small);
    RONDO_CHECK(data != nullptr);
    copy_moves(data, descriptor.payload, frame.bytes);
    message->data = data;
    message->handle = make_handle(Holder::small, small);
    return true;
  }
  if (sane && carrier_of(mark) == Carrier::slot && index < peer_slots_ && frame.bytes <= peer_slot_bytes_) {
    message->data = link_.segment->slot(index);
    message->handle = make_handle(Holder::slot, index);
    return true;
  }
  if (sane && carrier_of(mark) == Carrier::reference && frame.bytes <= peer_slot_bytes_) {
    uint64_t offset = 0;
    std::memcpy(&offset, descriptor.payload, sizeof offset);
    if (link_.heap != nullptr && offset <= link_.heap->bytes() && frame.bytes <= link_.heap->bytes() - offset) {
      message->data = link_.heap->base() + offset;
      message->handle = make_handle(Holder::reference, index);
      return true;
    }
  }
  break_link(
      fail(Code::peer,
           "shm: rank {} wrote a broken descriptor {}: carrier {}, slot {} of {}, frame version {} kind {}, {} bytes",
           rank(), head_, static_cast<int>(carrier_of(mark)), index, peer_slots_, frame.version,
           static_cast<int>(frame.kind), frame.bytes));
  return false;
}

bool ShmEndpoint::poll(const StreamKey& key, Message* message) {
  if (!arrivals_.waiting().empty() && arrivals_.take(key, message)) return true;
  Message fresh;
  while (next(&fresh)) {
    if (key_of(fresh.frame) == key) {
      *message = fresh;
      return true;
    }
    arrivals_.push(fresh);
  }
  // Whoever asks for a message that the departed peer has not left behind must learn that it will never come.
  if (eof_) fail_once(closed());
  return false;
}

bool ShmEndpoint::peek_user(uint32_t comm, Frame* frame) {
  drain();
  const Message* found = arrivals_.find_user(comm);
  if (found != nullptr) *frame = found->frame;
  return found != nullptr;
}

void ShmEndpoint::release(const Message& message) {
  const uint32_t index = static_cast<uint32_t>(message.handle);
  switch (holder_of(message.handle)) {
    case Holder::slot:
      return give_back(index);
    case Holder::reference:
      return give_back(index | kReferenceBit);
    case Holder::small:
      return staging_.free_small(index);
    case Holder::large:
      return staging_.free_large(index);
    case Holder::nothing:
      return;
  }
}

void ShmEndpoint::give_back(uint32_t what) {
  const uint64_t number = released_ + 1;
  // seq_cst: as a release it ends this rank's reads of the slot before SlotPool::reclaim()'s acquire; in the one order
  // it pairs with the store of `starving` in SlotPool::starve(): either this rank sees it and rings, or the look before
  // sleeping sees this release.
  mine_.releases[released_ % kMaxSlots].store(number << 32 | what, std::memory_order_seq_cst);
  released_ = static_cast<uint32_t>(number);
  // A pending send is waited for, unlike a slot.
  if ((what & kReferenceBit) != 0 || peer_starving_.load(std::memory_order_seq_cst) != 0) bell_.ring_if_asleep();
}

void ShmEndpoint::publish_consumed() {
  consumed_told_ = head_;
  // seq_cst: as a release it ends this rank's reads of the descriptors before the acquire in room(); in the one order
  // it pairs with the store of `blocked` in want_room().
  mine_.consumed.value.store(head_, std::memory_order_seq_cst);
  if (theirs_.blocked.value.load(std::memory_order_seq_cst) != 0) bell_.ring_if_asleep();
}

bool ShmEndpoint::drain() {
  Message message;
  uint32_t taken = 0;
  for (; taken < kRingEntries && next(&message); ++taken) arrivals_.push(message);
  return taken > 0;
}

bool ShmEndpoint::evacuate() {
  bool any = false;
  for (Message& message : arrivals_.waiting()) {
    const Holder holder = holder_of(message.handle);
    if (holder != Holder::slot && holder != Holder::reference) continue;
    uint32_t large = 0;
    std::byte* data = staging_.large(&large);
    if (data == nullptr) break;
    copy_(data, nullptr, message.data, message.frame.bytes);
    release(message);
    message.data = data;
    message.handle = make_handle(Holder::large, large);
    any = true;
  }
  return any;
}

// ---- both ----

bool ShmEndpoint::progress(std::vector<Completion>& completions) {
  bool any = complete(completions);
  if (has_backlog() && usable()) {
    const size_t before = backlog_at_;
    any = flush_backlog() || backlog_at_ != before;
  }
  // Acquire: as in next(); only a look.
  const bool ready = number_of(theirs_.ring[head_ & kMask].mark.load(std::memory_order_acquire)) == head_ + 1;
  if (ready && !broken_) {
    any = true;
    // Relaxed, both: hints; the reads of the messages themselves synchronise in next().
    const bool many = number_of(theirs_.ring[(head_ + kDrainAfter) & kMask].mark.load(std::memory_order_relaxed)) ==
                      head_ + kDrainAfter + 1;
    if (many || idle_head_ == head_ || peer_starving_.load(std::memory_order_relaxed) != 0) drain();
    idle_head_ = head_;
  }
  if (!arrivals_.waiting().empty() && peer_starving_.load(std::memory_order_relaxed) != 0) any |= evacuate();
  if (status_.ok()) any |= look_for_trouble();
  return any;
}

bool ShmEndpoint::look_for_trouble() {
  if (!pool_.complaint(reader_).ok()) break_link(pool_.complaint(reader_));
  if (!eof_) return !status_.ok();
  drain();
  if (arrivals_.waiting().empty()) fail_once(closed());
  return !status_.ok();
}

bool ShmEndpoint::look_before_sleep() {
  bool any = false;
  // seq_cst, all five: they follow the store of `sleeping` in ShmTransport::arm(); each pairs with the peer's seq_cst
  // store of the same word, which the peer follows with a load of `sleeping`. The first is for the caller, who looks at
  // the shared areas next.
  (void)link_.segment->header().wakes.value.load(std::memory_order_seq_cst);
  if (number_of(theirs_.ring[head_ & kMask].mark.load(std::memory_order_seq_cst)) == head_ + 1) any |= drain();
  if (peer_starving_.load(std::memory_order_seq_cst) != 0) any |= evacuate();
  if (blocked_) any |= see_consumed(theirs_.consumed.value.load(std::memory_order_seq_cst));
  return any;
}

void ShmEndpoint::read_socket() {
  std::byte bells[256];
  while (!eof_) {
    const ssize_t got = recv(socket(), bells, sizeof bells, MSG_DONTWAIT);
    if (got > 0) continue;
    if (got < 0 && errno == EINTR) continue;
    if (got < 0 && (errno == EAGAIN || errno == EWOULDBLOCK)) return;
    eof_ = true;
  }
  drop_backlog();
  // The peer reads nothing any more, so that what it held is free.
  pool_.drop_reader(reader_);
  if (status_.ok()) look_for_trouble();
}

bool ShmEndpoint::usable() {
  if (eof_) fail_once(closed());
  return status_.ok();
}

Status ShmEndpoint::closed() const { return fail(Code::peer, "shm: rank {} closed its socket", rank()); }

void ShmEndpoint::drop_backlog() {
  for (; has_backlog(); ++backlog_at_) pool_.skip(backlog_[backlog_at_].slot);
  backlog_.clear();
  backlog_at_ = 0;
}

void ShmEndpoint::break_link(Status why) {
  broken_ = true;
  fail_once(std::move(why));
  drop_backlog();
}

void ShmEndpoint::fail_once(Status why) {
  if (status_.ok()) status_ = std::move(why);
}

}  // namespace rondo::shm
