#include "transports/loopback/loopback.h"

#include <algorithm>
#include <cstring>
#include <unordered_map>

#include "base/check.h"
#include "transport/match.h"
#include "transports/loopback/world.h"

namespace rondo::loopback {
namespace {

// What a loan's handle stands for.
struct Loan {
  Memory copy;
  uint32_t slot = kNoSlot;
  bool lent = false;
};

struct Exposure {
  StreamKey key;
  std::byte* memory;
  size_t bytes;
};

class LoopbackEndpoint final : public Endpoint {
 public:
  LoopbackEndpoint(std::shared_ptr<State> state, Rank rank, Rank peer)
      : state_(std::move(state)), rank_(rank), peer_(peer) {}
  ~LoopbackEndpoint() override {
    const std::lock_guard lock(state_->mutex);
    for (const auto& [handle, loan] : loans_)
      if (loan.slot != kNoSlot) state_->release_slot(peer_, loan.slot);
  }

  Sent send(const Frame& frame, const std::byte* data, Token token) override;
  Sent commit(const Frame& frame, const Slot& slot) override;
  bool poll(const StreamKey& key, Message* message) override;
  void release(const Message& message) override;
  bool expose(const StreamKey& key, std::byte* memory, size_t bytes) override;
  bool withdraw(const StreamKey& key) override;
  void detach(Token token) override;
  bool peek_user(uint32_t comm, Frame* frame) override;
  const Status& status() const override { return status_; }

  // Takes over what stands in the incoming ring; the mutex is held.
  bool drain();
  // Whether drain() would do something; the mutex is held.
  bool has_work();

 private:
  bool sees_end();
  void deliver(Wire& wire);
  std::byte* take_exposed(const Frame& frame);

  const std::shared_ptr<State> state_;
  const Rank rank_, peer_;
  Arrivals arrivals_;
  std::unordered_map<uint64_t, Loan> loans_;  // by handle: arrived and not yet released
  std::vector<Exposure> exposed_;
  uint64_t next_handle_ = 1;
  Status end_;     // why nothing more comes, once that is so
  Status status_;  // end_, once what came before it was asked for
};

Sent LoopbackEndpoint::send(const Frame& frame, const std::byte* data, Token token) {
  const std::lock_guard lock(state_->mutex);
  RONDO_CHECK(frame.bytes <= state_->options.message_bytes);
  if (sees_end()) {
    status_ = end_;
    return Sent::failed;
  }
  Link& link = state_->link(rank_, peer_);
  if (link.ring.size() >= state_->options.ring_messages) {
    link.refused = true;
    return Sent::again;
  }
  Wire wire{.frame = frame, .token = token};
  if (frame.bytes > state_->options.inject_bytes) {
    wire.data = data;
    wire.pending = true;
  } else {
    wire.copy = make_memory(frame.bytes);
    if (!wire.copy) return Sent::again;
    if (frame.bytes > 0) std::memcpy(wire.copy.get(), data, frame.bytes);
    wire.data = wire.copy.get();
  }
  const bool pending = wire.pending;
  link.ring.push_back(std::move(wire));
  state_->wake(peer_);
  return pending ? Sent::pending : Sent::done;
}

Sent LoopbackEndpoint::commit(const Frame& frame, const Slot& slot) {
  const std::lock_guard lock(state_->mutex);
  RONDO_CHECK(slot.data != nullptr && frame.bytes <= slot.bytes);
  const uint32_t index = static_cast<uint32_t>(slot.handle);
  if (sees_end()) {
    status_ = end_;
    state_->release_slot(rank_, index);
    return Sent::failed;
  }
  state_->link(rank_, peer_).ring.push_back(Wire{.frame = frame, .slot = index, .data = slot.data});
  state_->wake(peer_);
  return Sent::done;
}

// Whether the link has ended; notes why.
bool LoopbackEndpoint::sees_end() {
  if (!end_.ok()) return true;
  if (state_->members[rank_].life != Life::alive) {
    end_ = fail(Code::peer, "loopback: link to rank {} ended: this rank was killed", peer_);
  } else if (state_->members[peer_].life == Life::killed) {
    end_ = fail(Code::peer, "loopback: rank {} was killed", peer_);
  } else if (state_->members[peer_].life == Life::closed) {
    end_ = fail(Code::peer, "loopback: rank {} closed the connection", peer_);
  }
  return !end_.ok();
}

std::byte* LoopbackEndpoint::take_exposed(const Frame& frame) {
  const StreamKey key = key_of(frame);
  const auto at = std::find_if(exposed_.begin(), exposed_.end(), [&](const Exposure& e) { return e.key == key; });
  if (at == exposed_.end()) return nullptr;
  std::byte* memory = frame.bytes <= at->bytes ? at->memory : nullptr;
  exposed_.erase(at);
  return memory;
}

void LoopbackEndpoint::deliver(Wire& wire) {
  Message message{.frame = wire.frame, .data = wire.data, .handle = next_handle_++};
  Loan loan{.copy = std::move(wire.copy), .slot = wire.slot};
  if (std::byte* memory = take_exposed(wire.frame)) {
    if (wire.frame.bytes > 0) std::memcpy(memory, wire.data, wire.frame.bytes);
    if (loan.slot != kNoSlot) state_->release_slot(peer_, std::exchange(loan.slot, kNoSlot));
    loan.copy.reset();
    message.data = memory;
    message.placed = true;
  } else if (wire.pending) {
    loan.copy = make_memory(wire.frame.bytes);
    RONDO_CHECK(loan.copy);
    if (wire.frame.bytes > 0) std::memcpy(loan.copy.get(), wire.data, wire.frame.bytes);
    message.data = loan.copy.get();
  }
  if (wire.pending) state_->members[peer_].completions.push_back({wire.token});
  loans_.emplace(message.handle, std::move(loan));
  arrivals_.push(message);
}

bool LoopbackEndpoint::drain() {
  Link& link = state_->link(peer_, rank_);
  bool moved = false;
  bool completed = false;
  for (; !link.ring.empty(); link.ring.pop_front()) {
    completed |= link.ring.front().pending;
    deliver(link.ring.front());
    moved = true;
  }
  if (moved && (std::exchange(link.refused, false) || completed)) state_->wake(peer_);
  if (status_.ok() && sees_end() && arrivals_.waiting().empty()) {
    status_ = end_;
    moved = true;
  }
  return moved;
}

bool LoopbackEndpoint::has_work() {
  return !state_->link(peer_, rank_).ring.empty() || (status_.ok() && sees_end() && arrivals_.waiting().empty());
}

bool LoopbackEndpoint::poll(const StreamKey& key, Message* message) {
  const std::lock_guard lock(state_->mutex);
  if (arrivals_.take(key, message)) {
    loans_.at(message->handle).lent = true;
    return true;
  }
  // Nobody will ever send what was just asked for.
  if (!end_.ok() && state_->link(peer_, rank_).ring.empty()) status_ = end_;
  return false;
}

void LoopbackEndpoint::release(const Message& message) {
  const std::lock_guard lock(state_->mutex);
  const auto at = loans_.find(message.handle);
  RONDO_CHECK(at != loans_.end() && at->second.lent);
  if (at->second.slot != kNoSlot) state_->release_slot(peer_, at->second.slot);
  loans_.erase(at);
}

bool LoopbackEndpoint::expose(const StreamKey& key, std::byte* memory, size_t bytes) {
  const std::lock_guard lock(state_->mutex);
  if (!state_->options.expose || !end_.ok()) return false;
  for (const Exposure& exposure : exposed_)
    if (exposure.key == key) return false;
  for (const Message& message : arrivals_.waiting())
    if (key_of(message.frame) == key) return false;
  exposed_.push_back({key, memory, bytes});
  return true;
}

bool LoopbackEndpoint::withdraw(const StreamKey& key) {
  const std::lock_guard lock(state_->mutex);
  std::erase_if(exposed_, [&](const Exposure& exposure) { return exposure.key == key; });
  return true;
}

void LoopbackEndpoint::detach(Token token) {
  const std::lock_guard lock(state_->mutex);
  for (Wire& wire : state_->link(rank_, peer_).ring)
    if (wire.pending && wire.token == token) state_->detach(rank_, wire);
}

bool LoopbackEndpoint::peek_user(uint32_t comm, Frame* frame) {
  const std::lock_guard lock(state_->mutex);
  const Message* message = arrivals_.find_user(comm);
  if (message == nullptr) return false;
  *frame = message->frame;
  return true;
}

class LoopbackArea final : public SharedArea {
 public:
  LoopbackArea(std::shared_ptr<State> state, AreaName name, Rank rank, Writers writers,
               std::shared_ptr<std::byte[]> mine)
      : state_(std::move(state)), name_(std::move(name)), rank_(rank), writers_(writers), pieces_(name_.second.size()) {
    for (size_t i = 0; i < pieces_.size(); ++i)
      if (name_.second[i] == rank_) pieces_[i] = mine;
    mine_ = std::move(mine);
  }
  ~LoopbackArea() override {
    const std::lock_guard lock(state_->mutex);
    const auto at = state_->areas.find(name_);
    if (at == state_->areas.end()) return;
    at->second.pieces.erase(rank_);
    if (at->second.pieces.empty()) state_->areas.erase(at);
  }

  std::byte* mine() override { return mine_.get(); }
  const std::byte* of(uint32_t index) override { return piece(index); }
  std::byte* open(uint32_t index) override { return writers_ == Writers::members ? piece(index) : nullptr; }
  void populate() override {}
  void settled() override {}
  void wake() override {
    const std::lock_guard lock(state_->mutex);
    for (const Rank member : name_.second)
      if (member != rank_) state_->wake(member);
  }

 private:
  std::byte* piece(uint32_t index) {
    RONDO_CHECK(index < pieces_.size());
    if (pieces_[index] == nullptr) {
      const std::lock_guard lock(state_->mutex);
      Area& area = state_->areas.at(name_);
      if (const auto at = area.pieces.find(name_.second[index]); at != area.pieces.end()) pieces_[index] = at->second;
    }
    return pieces_[index].get();
  }

  const std::shared_ptr<State> state_;
  const AreaName name_;
  const Rank rank_;
  const Writers writers_;
  std::shared_ptr<std::byte[]> mine_;
  std::vector<std::shared_ptr<std::byte[]>> pieces_;  // by position in the members' list, as far as seen
};

class LoopbackTransport final : public Transport {
 public:
  LoopbackTransport(std::shared_ptr<State> state, Rank rank) : state_(std::move(state)), rank_(rank) {
    const LoopbackOptions& options = state_->options;
    caps_ = {.lend = options.slots > 0,
             .slots = options.slots > 0,
             .multicast = options.slots > 0,
             .expose = options.expose,
             .inject_bytes = std::min(options.inject_bytes, options.message_bytes),
             .message_bytes = options.message_bytes};
    endpoints_.resize(state_->members.size());
  }
  ~LoopbackTransport() override {
    const std::lock_guard lock(state_->mutex);
    state_->end(rank_, Life::closed);
  }

  std::string_view name() const override { return "loopback"; }
  const Caps& caps() const override { return caps_; }
  std::string address() const override {
    return fmt::format("loopback:{}:{}", static_cast<const void*>(state_.get()), rank_);
  }
  Status reaches(std::string_view address) const override;
  Status connect(std::span<const Peer> peers, Deadline deadline) override;
  Endpoint* endpoint(Rank rank) override { return rank < endpoints_.size() ? endpoints_[rank].get() : nullptr; }
  bool progress(std::vector<Completion>& completions) override;
  int wait_fd() const override { return state_->members[rank_].event.get(); }
  bool arm() override;
  void disarm() override;
  Slot reserve(size_t bytes, uint32_t readers) override;
  void cancel(const Slot& slot) override;
  Result<std::unique_ptr<SharedArea>> share(uint64_t id, std::span<const Rank> members, size_t bytes,
                                            Writers writers) override;
  Result<void*> alloc(size_t bytes) override;
  Status free(void* memory) override;
  // Ordinary memory, which cannot be taken away from the other ranks again.
  bool locate(const void*, size_t, uint64_t*) override { return false; }
  std::byte* view(Rank, uint64_t, size_t) override { return nullptr; }
  Status part(void*, size_t) override { return fail(Code::unsupported, "loopback: memory has no places"); }

 private:
  const std::shared_ptr<State> state_;
  const Rank rank_;
  Caps caps_;
  std::vector<std::unique_ptr<LoopbackEndpoint>> endpoints_;
  std::vector<Memory> allocated_;
};

Status LoopbackTransport::reaches(std::string_view address) const {
  const std::string here = fmt::format("loopback:{}:", static_cast<const void*>(state_.get()));
  if (address.starts_with(here)) return {};
  return fail(Code::unsupported, "loopback: {} is not of this world", address);
}

Status LoopbackTransport::connect(std::span<const Peer> peers, Deadline) {
  for (const Peer& peer : peers) {
    if (peer.rank >= endpoints_.size() || peer.rank == rank_)
      return fail(Code::invalid, "loopback: rank {} of {} cannot connect to rank {}", rank_, endpoints_.size(),
                  peer.rank);
    RONDO_TRY(reaches(peer.address));
    if (!endpoints_[peer.rank]) endpoints_[peer.rank] = std::make_unique<LoopbackEndpoint>(state_, rank_, peer.rank);
  }
  return {};
}

bool LoopbackTransport::progress(std::vector<Completion>& completions) {
  const std::lock_guard lock(state_->mutex);
  bool moved = false;
  for (const auto& endpoint : endpoints_)
    if (endpoint) moved |= endpoint->drain();
  std::vector<Completion>& mine = state_->members[rank_].completions;
  moved |= !mine.empty();
  completions.insert(completions.end(), mine.begin(), mine.end());
  mine.clear();
  return moved;
}

bool LoopbackTransport::arm() {
  const std::lock_guard lock(state_->mutex);
  Member& member = state_->members[rank_];
  // What woke this rank before it was armed may be what it is about to sleep for: room that it was refused.
  if (std::exchange(member.woken, false) || !member.completions.empty()) return false;
  for (const auto& endpoint : endpoints_)
    if (endpoint && endpoint->has_work()) return false;
  member.armed = true;
  return true;
}

void LoopbackTransport::disarm() {
  const std::lock_guard lock(state_->mutex);
  Member& member = state_->members[rank_];
  member.armed = false;
  uint64_t count;
  [[maybe_unused]] const ssize_t got = read(member.event.get(), &count, sizeof count);  // EAGAIN: nobody woke us
}

Slot LoopbackTransport::reserve(size_t bytes, uint32_t readers) {
  const std::lock_guard lock(state_->mutex);
  Member& member = state_->members[rank_];
  if (member.slots.empty() || bytes > state_->options.slot_bytes || readers == 0) return {};
  for (size_t i = 0; i < member.slots.size(); ++i) {
    if (member.slots[i].readers != 0) continue;
    member.slots[i].readers = readers;
    return {.data = member.slots[i].memory.get(), .bytes = bytes, .handle = i};
  }
  member.slot_refused = true;
  return {};
}

void LoopbackTransport::cancel(const Slot& slot) {
  if (slot.data == nullptr) return;
  const std::lock_guard lock(state_->mutex);
  SlotState& state = state_->members[rank_].slots.at(slot.handle);
  RONDO_CHECK(state.readers > 0);
  state.readers = 0;
}

Result<std::unique_ptr<SharedArea>> LoopbackTransport::share(uint64_t id, std::span<const Rank> members, size_t bytes,
                                                             Writers writers) {
  if (!state_->options.memory) return std::unique_ptr<SharedArea>();
  if (std::find(members.begin(), members.end(), rank_) == members.end())
    return fail(Code::invalid, "loopback: area {}: rank {} is not one of its {} members", id, rank_, members.size());
  std::shared_ptr<std::byte[]> piece(make_memory(bytes));
  if (!piece) return fail(Code::no_memory, "loopback: area {}: no memory for {} bytes", id, bytes);
  AreaName name{id, {members.begin(), members.end()}};
  const std::lock_guard lock(state_->mutex);
  if (!state_->areas[name].pieces.emplace(rank_, piece).second)
    return fail(Code::invalid, "loopback: area {} already has a piece of rank {}", id, rank_);
  return std::unique_ptr<SharedArea>(
      std::make_unique<LoopbackArea>(state_, std::move(name), rank_, writers, std::move(piece)));
}

Result<void*> LoopbackTransport::alloc(size_t bytes) {
  if (!state_->options.memory) return fail(Code::unsupported, "loopback: no memory that peers can map");
  Memory memory = make_memory(bytes);
  if (!memory) return fail(Code::no_memory, "loopback: no memory for {} bytes", bytes);
  allocated_.push_back(std::move(memory));
  return static_cast<void*>(allocated_.back().get());
}

Status LoopbackTransport::free(void* memory) {
  const auto at =
      std::find_if(allocated_.begin(), allocated_.end(), [&](const Memory& m) { return m.get() == memory; });
  if (at == allocated_.end()) return fail(Code::invalid, "loopback: free of memory that alloc() did not give");
  allocated_.erase(at);
  return {};
}

}  // namespace

std::unique_ptr<Transport> make_transport(std::shared_ptr<State> state, Rank rank) {
  return std::make_unique<LoopbackTransport>(std::move(state), rank);
}

}  // namespace rondo::loopback
