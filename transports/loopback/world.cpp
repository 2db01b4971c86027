#include "transports/loopback/world.h"

#include <sys/eventfd.h>

#include <cstring>

#include "base/check.h"

namespace rondo {
namespace loopback {

Memory make_memory(size_t bytes) {
  const size_t rounded = (bytes + 127) / 128 * 128 + 128;  // aligned_alloc wants a multiple; never an empty block
  auto* memory = static_cast<std::byte*>(std::aligned_alloc(128, rounded));
  if (memory != nullptr) std::memset(memory, 0, rounded);
  return Memory(memory);
}

State::State(uint32_t world, const LoopbackOptions& given) : options(given), members(world), links(world * world) {
  for (Member& member : members) {
    member.event.reset(eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC));
    member.slots.resize(options.slots);
    for (SlotState& slot : member.slots) {
      slot.memory = make_memory(options.slot_bytes);
      RONDO_CHECK(slot.memory);
    }
  }
}

void State::wake(Rank rank) {
  Member& member = members[rank];
  member.woken = true;
  if (!member.armed || !member.event) return;
  const uint64_t one = 1;
  // Fails only when the counter is full, and then the descriptor is readable anyway.
  [[maybe_unused]] const ssize_t written = write(member.event.get(), &one, sizeof one);
}

void State::release_slot(Rank owner, uint32_t slot) {
  Member& member = members[owner];
  RONDO_CHECK(slot < member.slots.size() && member.slots[slot].readers > 0);
  if (--member.slots[slot].readers != 0) return;
  if (std::exchange(member.slot_refused, false)) wake(owner);
}

void State::drop(Rank from, Rank to) {
  for (Wire& wire : link(from, to).ring) {
    if (wire.pending) members[from].completions.push_back({wire.token});
    if (wire.slot != kNoSlot) release_slot(from, wire.slot);
  }
  link(from, to).ring.clear();
}

void State::detach(Rank from, Wire& wire) {
  wire.copy = make_memory(wire.frame.bytes);
  RONDO_CHECK(wire.copy);
  if (wire.frame.bytes > 0) std::memcpy(wire.copy.get(), wire.data, wire.frame.bytes);
  wire.data = wire.copy.get();
  wire.pending = false;
  members[from].completions.push_back({wire.token});
}

void State::end(Rank rank, Life how) {
  if (members[rank].life != Life::alive) return;
  members[rank].life = how;
  for (Rank peer = 0; peer < members.size(); ++peer) {
    if (peer == rank) continue;
    drop(peer, rank);
    std::deque<Wire>& out = link(rank, peer).ring;
    if (how == Life::killed) {
      // A dead sender's memory cannot be read: the stream ends before the first message that still needs it.
      size_t kept = 0;
      while (kept < out.size() && !out[kept].pending) ++kept;
      while (out.size() > kept) {
        if (out.back().pending) members[rank].completions.push_back({out.back().token});
        if (out.back().slot != kNoSlot) release_slot(rank, out.back().slot);
        out.pop_back();
      }
    }
    for (Wire& wire : out)
      if (wire.pending) detach(rank, wire);
    wake(peer);
  }
  wake(rank);
}

}  // namespace loopback

struct LoopbackWorld::Impl {
  std::shared_ptr<loopback::State> state;
  std::vector<std::unique_ptr<Transport>> transports;
};

LoopbackWorld::LoopbackWorld(uint32_t world, const LoopbackOptions& options) : impl_(std::make_unique<Impl>()) {
  impl_->state = std::make_shared<loopback::State>(world, options);
  for (Rank rank = 0; rank < world; ++rank) impl_->transports.push_back(loopback::make_transport(impl_->state, rank));
}

LoopbackWorld::~LoopbackWorld() = default;

Transport& LoopbackWorld::transport(Rank rank) {
  RONDO_CHECK(rank < impl_->transports.size() && impl_->transports[rank]);
  return *impl_->transports[rank];
}

std::unique_ptr<Transport> LoopbackWorld::take(Rank rank) {
  RONDO_CHECK(rank < impl_->transports.size() && impl_->transports[rank]);
  return std::move(impl_->transports[rank]);
}

void LoopbackWorld::kill(Rank rank) {
  const std::lock_guard lock(impl_->state->mutex);
  RONDO_CHECK(rank < impl_->state->members.size());
  impl_->state->end(rank, loopback::Life::killed);
}

}  // namespace rondo
