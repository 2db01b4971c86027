// Arrivals of one endpoint that no receive has asked for yet, in arrival order. A linear scan: few are waiting at a time,
// because windows bound what is in flight. Used by the transports; holder of the progress lease only.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "transport/contract.h"

namespace rondo {

class Arrivals {
 public:
  Arrivals() { waiting_.reserve(64); }

  void push(const Message& message) { waiting_.push_back(message); }

  bool take(const StreamKey& key, Message* message) {
    for (size_t i = 0; i < waiting_.size(); ++i) {
      if (!(key_of(waiting_[i].frame) == key)) continue;
      *message = waiting_[i];
      waiting_.erase(waiting_.begin() + static_cast<ptrdiff_t>(i));
      return true;
    }
    return false;
  }

  const Message* find_user(uint32_t comm) const {
    for (const Message& message : waiting_)
      if (message.frame.kind == FrameKind::user && message.frame.comm == comm) return &message;
    return nullptr;
  }

  // All of them, oldest first; a transport that wants its memory back replaces `data` and `handle` in place.
  std::vector<Message>& waiting() { return waiting_; }

 private:
  std::vector<Message> waiting_;
};

}  // namespace rondo
