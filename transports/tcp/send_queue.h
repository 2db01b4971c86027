// SendQueue: the sending half of one socket. Writes at once what the kernel takes; the rest waits in a ring of bounded
// length, small payloads as copies, large ones in the caller's memory. Progress-lease holder only; no allocation once
// every entry has been used.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

#include "transport/contract.h"

namespace rondo::tcp {

class SendQueue {
 public:
  SendQueue(uint32_t messages, size_t inject_bytes) : entries_(messages), inject_bytes_(inject_bytes) {}

  // Contract::send. `failed`: the socket is broken, see error(); nothing of the message counts as accepted.
  Sent send(int fd, const Frame& frame, const std::byte* data, Token token);
  // Writes what the kernel takes; appends completions. Returns whether anything moved.
  bool flush(int fd, std::vector<Completion>& completions);
  // Makes the pending send with this token independent of the caller's memory. False: there is none. `failed` tells
  // that there was no memory for it.
  bool detach(Token token, bool* failed);
  // Drops everything; pending sends complete.
  void abandon(std::vector<Completion>& completions);

  bool empty() const { return count_ == 0; }
  int error() const { return error_; }  // the errno that broke the socket, or 0

 private:
  struct Entry {
    Frame frame;
    const std::byte* data = nullptr;
    size_t sent = 0;  // of frame and payload together
    Token token = 0;
    bool pending = false;
    std::unique_ptr<std::byte[]> copy;      // inject_bytes, made on first use and kept
    std::unique_ptr<std::byte[]> detached;  // a large payload whose owner has left
    size_t total() const { return sizeof(Frame) + frame.bytes; }
  };

  Entry& at(size_t i) { return entries_[(first_ + i) % entries_.size()]; }
  Sent push(const Frame& frame, const std::byte* data, Token token, size_t sent);
  void retire(size_t bytes, std::vector<Completion>& completions);
  void pop(std::vector<Completion>& completions);

  std::vector<Entry> entries_;  // a ring
  size_t first_ = 0, count_ = 0;
  const size_t inject_bytes_;
  int error_ = 0;
};

}  // namespace rondo::tcp
