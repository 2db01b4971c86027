// Sends that outlive the step that made them: batches, the queue of messages that found no room, staging memory.
#include <algorithm>

#include "base/check.h"
#include "exec/executor.h"

namespace rondo {

uint32_t Executor::open_batch(Operation* operation, const Instance& at, std::byte* staging) {
  if (free_batches_.empty()) {
    batches_.emplace_back();
    free_batches_.push_back(static_cast<uint32_t>(batches_.size() - 1));
  }
  const uint32_t index = free_batches_.back();
  free_batches_.pop_back();
  batches_[index] = {operation, at, 1, staging};  // one for the opener, until close_batch()
  return index;
}

// A message must not overtake one that waits for room, or the order of its stream would break.
bool Executor::behind(const Endpoint& endpoint) const {
  return std::any_of(queue_.begin(), queue_.end(), [&](const Queued& queued) { return queued.endpoint == &endpoint; });
}

void Executor::emit(Operation& operation, Rank to, const Frame& frame, const std::byte* data, uint32_t batch) {
  Endpoint& endpoint = *operation.group->members[to].endpoint;
  const Sent sent = behind(endpoint) ? Sent::again : endpoint.send(frame, data, batch);
  if (sent == Sent::done) return;
  if (sent == Sent::failed) {
    suspect(operation, to, endpoint.status());
    return;
  }
  ++batches_[batch].outstanding;
  if (sent == Sent::again) queue_.push_back({&endpoint, to, frame, data, batch});
}

bool Executor::close_batch(uint32_t batch) {
  Batch& entry = batches_[batch];
  if (--entry.outstanding > 0) {
    if (entry.operation != nullptr) ++entry.operation->sends_pending;
    return false;
  }
  if (entry.staging != nullptr) return_staging(entry.staging);
  entry = {};
  free_batches_.push_back(batch);
  return true;
}

void Executor::send_complete(uint32_t batch) {
  Batch& entry = batches_[batch];
  RONDO_CHECK(entry.outstanding > 0);
  if (--entry.outstanding > 0) return;
  if (entry.operation != nullptr) {
    --entry.operation->sends_pending;
    if (entry.operation->kind == OperationKind::schedule) entry.operation->walker.sent(entry.instance);
  }
  if (entry.staging != nullptr) return_staging(entry.staging);
  entry = {};
  free_batches_.push_back(batch);
}

bool Executor::flush_queue() {
  bool moved = false;
  size_t kept = 0;
  for (size_t i = 0; i < queue_.size(); ++i) {
    const Queued queued = queue_[i];
    bool behind = false;
    for (size_t j = 0; j < kept && !behind; ++j) behind = queue_[j].endpoint == queued.endpoint;
    const Sent sent = behind ? Sent::again : queued.endpoint->send(queued.frame, queued.data, queued.batch);
    if (sent == Sent::again) {
      queue_[kept++] = queued;
      continue;
    }
    moved = true;
    if (sent == Sent::pending) continue;
    if (sent == Sent::failed && batches_[queued.batch].operation != nullptr)
      suspect(*batches_[queued.batch].operation, queued.to, queued.endpoint->status());
    send_complete(queued.batch);
  }
  queue_.resize(kept);
  return moved;
}

std::byte* Executor::take_staging(size_t bytes) {
  for (StagingBuffer& buffer : staging_) {
    if (buffer.taken || buffer.bytes < bytes) continue;
    buffer.taken = true;
    return buffer.memory.get();
  }
  const size_t room = std::max<size_t>(bytes, 4096);
  staging_.push_back({std::make_unique<std::byte[]>(room), room, true});
  return staging_.back().memory.get();
}

void Executor::return_staging(std::byte* staging) {
  for (StagingBuffer& buffer : staging_)
    if (buffer.memory.get() == staging) buffer.taken = false;
}

// The group has failed: its queued messages vanish, and transports let go of the user's memory.
void Executor::drop_sends(Group& group) {
  size_t kept = 0;
  for (const Queued& queued : queue_) {
    Batch& entry = batches_[queued.batch];
    if (entry.operation == nullptr || entry.operation->group != &group) {
      queue_[kept++] = queued;
      continue;
    }
    --entry.outstanding;
    if (entry.outstanding == 0) {
      --entry.operation->sends_pending;
      entry = {};
      free_batches_.push_back(queued.batch);
    }
  }
  queue_.resize(kept);
  for (uint32_t index = 0; index < batches_.size(); ++index) {
    Batch& entry = batches_[index];
    if (entry.operation == nullptr || entry.operation->group != &group) continue;
    for (const Member& member : group.members)
      if (member.endpoint != nullptr) member.endpoint->detach(index);
    --entry.operation->sends_pending;
    entry.operation = nullptr;  // the slot of the batch is freed when the completions have come
  }
}

}  // namespace rondo
