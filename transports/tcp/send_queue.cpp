#include "transports/tcp/send_queue.h"

#include <algorithm>
#include <cstring>
#include <new>
#include <utility>

#include "transports/tcp/io.h"

namespace rondo::tcp {
namespace {

constexpr size_t kGather = 32;        // messages per system call
constexpr size_t kPackedBytes = 512;  // a payload of at most this is copied behind its frame

iovec part(const void* data, size_t bytes) { return {const_cast<void*>(data), bytes}; }

// The unsent rest of a message; returns the number of parts.
size_t rest_of(const Frame& frame, const std::byte* data, size_t sent, iovec* parts) {
  size_t count = 0;
  if (sent < sizeof(Frame))
    parts[count++] = part(reinterpret_cast<const std::byte*>(&frame) + sent, sizeof(Frame) - sent);
  const size_t payload = sent < sizeof(Frame) ? 0 : sent - sizeof(Frame);
  if (payload < frame.bytes) parts[count++] = part(data + payload, frame.bytes - payload);
  return count;
}

}  // namespace

Sent SendQueue::send(int fd, const Frame& frame, const std::byte* data, Token token) {
  if (error_ != 0) return Sent::failed;
  if (count_ == entries_.size()) return Sent::again;
  if (count_ > 0) return push(frame, data, token, 0);
  std::byte packed[sizeof(Frame) + kPackedBytes];
  iovec parts[2];
  size_t count = 1;
  if (frame.bytes <= kPackedBytes) {
    std::memcpy(packed, &frame, sizeof(Frame));
    if (frame.bytes > 0) std::memcpy(packed + sizeof(Frame), data, frame.bytes);
    parts[0] = part(packed, sizeof(Frame) + frame.bytes);
  } else {
    count = rest_of(frame, data, 0, parts);
  }
  const Moved moved = write_gather(fd, parts, count);
  if (moved.error != 0) {
    error_ = moved.error;
    return Sent::failed;
  }
  if (moved.bytes == sizeof(Frame) + frame.bytes) return Sent::done;
  return push(frame, data, token, moved.bytes);
}

Sent SendQueue::push(const Frame& frame, const std::byte* data, Token token, size_t sent) {
  Entry& entry = at(count_);
  const size_t skipped = sent < sizeof(Frame) ? 0 : sent - sizeof(Frame);
  const size_t left = frame.bytes - skipped;
  const bool fits = frame.bytes <= inject_bytes_;
  if (fits && !entry.copy) {
    entry.copy.reset(new (std::nothrow) std::byte[inject_bytes_ + 1]);
    // A message of which nothing has been written may be refused; else only its owner's memory is left.
    if (!entry.copy && sent == 0) return Sent::again;
  }
  const bool copied = fits && entry.copy;
  entry.frame = frame;
  entry.sent = sent;
  entry.token = token;
  entry.pending = !copied;
  entry.data = data;
  if (copied) {
    if (left > 0) std::memcpy(entry.copy.get() + skipped, data + skipped, left);
    entry.data = entry.copy.get();
  }
  ++count_;
  return copied ? Sent::done : Sent::pending;
}

bool SendQueue::flush(int fd, std::vector<Completion>& completions) {
  bool any = false;
  while (count_ > 0 && error_ == 0) {
    iovec parts[2 * kGather];
    size_t used = 0, bytes = 0;
    for (size_t i = 0; i < std::min(count_, kGather); ++i) {
      const Entry& entry = at(i);
      used += rest_of(entry.frame, entry.data, entry.sent, parts + used);
      bytes += entry.total() - entry.sent;
    }
    const Moved moved = write_gather(fd, parts, used);
    error_ = moved.error;
    if (moved.bytes > 0) any = true;
    retire(moved.bytes, completions);
    if (moved.bytes < bytes) return any;
  }
  return any;
}

void SendQueue::retire(size_t bytes, std::vector<Completion>& completions) {
  while (count_ > 0) {
    Entry& entry = at(0);
    const size_t part = std::min(bytes, entry.total() - entry.sent);
    entry.sent += part;
    bytes -= part;
    if (entry.sent < entry.total()) return;
    pop(completions);
  }
}

void SendQueue::pop(std::vector<Completion>& completions) {
  Entry& entry = at(0);
  if (entry.pending) completions.push_back({entry.token});
  entry.pending = false;
  entry.detached.reset();
  first_ = (first_ + 1) % entries_.size();
  --count_;
}

bool SendQueue::detach(Token token, bool* failed) {
  for (size_t i = 0; i < count_; ++i) {
    Entry& entry = at(i);
    if (!entry.pending || entry.detached || entry.token != token) continue;
    entry.detached.reset(new (std::nothrow) std::byte[entry.frame.bytes]);
    *failed = !entry.detached;
    if (*failed) return true;
    const size_t skipped = entry.sent < sizeof(Frame) ? 0 : entry.sent - sizeof(Frame);
    std::memcpy(entry.detached.get() + skipped, entry.data + skipped, entry.frame.bytes - skipped);
    entry.data = entry.detached.get();
    return true;
  }
  return false;
}

void SendQueue::abandon(std::vector<Completion>& completions) {
  while (count_ > 0) pop(completions);
}

}  // namespace rondo::tcp
