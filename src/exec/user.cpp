// Point-to-point: a message is cut into pieces under one key (communicator, tag); the first frame tells the whole
// length. Messages of one key are matched in the order in which sends and receives were posted.
#include <algorithm>

#include "base/check.h"
#include "exec/executor.h"

namespace rondo {
namespace {

Frame user_frame(const Operation& operation, int64_t tag, size_t bytes) {
  Frame frame;
  frame.kind = FrameKind::user;
  frame.epoch = operation.group->epoch;
  frame.comm = operation.group->id;
  frame.seq = static_cast<uint32_t>(static_cast<uint64_t>(tag));
  frame.slice = static_cast<uint32_t>(static_cast<uint64_t>(tag) >> 32);
  frame.bytes = bytes;
  frame.fingerprint = operation.user.bytes;
  return frame;
}

int64_t tag_of(const Frame& frame) {
  return static_cast<int64_t>(static_cast<uint64_t>(frame.slice) << 32 | frame.seq);
}

}  // namespace

// Whether no earlier operation could take the same messages (receives) or would be overtaken (sends).
bool Executor::is_first_of_its_key(const Operation& operation) const {
  for (const Operation* other : active_) {
    if (other == &operation) return true;
    if (other->kind != operation.kind || other->group != operation.group || !other->linked) continue;
    const bool same_peer = !other->user.peer || !operation.user.peer || *other->user.peer == *operation.user.peer;
    if (same_peer && other->user.tag == operation.user.tag) return false;
  }
  return true;
}

bool Executor::drive_send(Operation& operation) {
  if (*operation.user.peer == operation.group->rank) return false;  // the receive takes it
  if (!operation.user.started && !is_first_of_its_key(operation)) return false;
  const bool moved = send_pieces(operation);
  const UserTransfer& user = operation.user;
  if (operation.error.ok() && user.started && user.moved == user.bytes && operation.sends_pending == 0)
    finish(operation, Status());
  return moved;
}

bool Executor::send_pieces(Operation& operation) {
  UserTransfer& user = operation.user;
  const Member& member = operation.group->members[*user.peer];
  bool moved = false;
  // Few pieces are read from the user's memory at a time: the rest waits here, not in the transport.
  while ((!user.started || user.moved < user.bytes) && operation.sends_pending < 4 && !operation.suspect) {
    const size_t bytes = std::min(user.bytes - user.moved, user.piece_bytes);
    const Frame frame = user_frame(operation, user.tag, bytes);
    const Caps& caps = member.transport->caps();
    if (caps.slots && bytes > caps.inject_bytes) {
      if (behind(*member.endpoint)) break;
      const Slot slot = member.transport->reserve(bytes, 1);
      if (slot.data == nullptr) break;
      options_.device->copy(slot.data, nullptr, user.data + user.moved, bytes, 0);
      if (member.endpoint->commit(frame, slot) == Sent::failed)
        suspect(operation, *user.peer, member.endpoint->status());
    } else {
      const uint32_t batch = open_batch(&operation, {}, nullptr);
      emit(operation, *user.peer, frame, user.data + user.moved, batch);
      close_batch(batch);
    }
    user.started = true;
    user.moved += bytes;
    moved = true;
  }
  return moved;
}

bool Executor::drive_recv(Operation& operation) {
  UserTransfer& user = operation.user;
  if (!user.started) {
    if (!is_first_of_its_key(operation)) return false;
    if ((!user.peer || *user.peer == operation.group->rank) && recv_from_self(operation)) return true;
    if (!user.peer && !choose_message(operation)) return false;
    if (*user.peer == operation.group->rank) return false;
  }
  return recv_pieces(operation);
}

// A receive from any rank takes the first peer that has a message with its tag.
bool Executor::choose_message(Operation& operation) {
  UserTransfer& user = operation.user;
  const Group& group = *operation.group;
  for (Rank rank = 0; rank < group.world(); ++rank) {
    Frame frame;
    Endpoint* endpoint = group.members[rank].endpoint;
    if (endpoint == nullptr || !endpoint->peek_user(group.id, &frame)) continue;
    if (tag_of(frame) != user.tag) continue;
    user.peer = rank;
    return true;
  }
  return false;
}

bool Executor::recv_pieces(Operation& operation) {
  UserTransfer& user = operation.user;
  const Member& member = operation.group->members[*user.peer];
  const StreamKey key = key_of(user_frame(operation, user.tag, 0));
  bool moved = false;
  Message message;
  while ((!user.started || user.moved < user.bytes) && member.endpoint->poll(key, &message)) {
    moved = true;
    const bool fits = message.frame.fingerprint == user.bytes && message.frame.bytes <= user.bytes - user.moved;
    if (fits) options_.device->copy(user.data + user.moved, nullptr, message.data, message.frame.bytes, 0);
    const uint64_t announced = message.frame.fingerprint, bytes = message.frame.bytes;
    member.endpoint->release(message);
    if (!fits) {
      operation.error = fail(Code::mismatch, "receive of {} bytes from rank {} (tag {}): the message has {} bytes",
                             user.bytes, *user.peer, user.tag, announced);
      return true;
    }
    user.started = true;
    user.moved += bytes;
  }
  if (user.started && user.moved == user.bytes) {
    finish(operation, Status());
    return true;
  }
  if (!moved && !member.endpoint->status().ok()) suspect(operation, *user.peer, member.endpoint->status());
  return moved;
}

bool Executor::recv_from_self(Operation& operation) {
  for (Operation* sender : active_) {
    if (sender->kind != OperationKind::send || sender->group != operation.group || !sender->linked) continue;
    if (*sender->user.peer != operation.group->rank || sender->user.tag != operation.user.tag) continue;
    if (sender->user.bytes != operation.user.bytes) {
      operation.error = fail(Code::mismatch, "receive of {} bytes from rank {} (tag {}): the message has {} bytes",
                             operation.user.bytes, operation.group->rank, operation.user.tag, sender->user.bytes);
      return true;
    }
    if (operation.user.bytes > 0 && operation.user.data != sender->user.data)
      options_.device->copy(operation.user.data, nullptr, sender->user.data, operation.user.bytes, 0);
    finish(*sender, Status());
    finish(operation, Status());
    return true;
  }
  return false;
}

}  // namespace rondo
