// Bell: wakes one peer that sleeps on its sockets. The peer's `sleeping` word is odd while it sleeps; each sleep has a
// number of its own, so a sleeper is rung once, however much is published meanwhile. Lease holder only.
#pragma once

#include <sys/socket.h>

#include <atomic>
#include <cstddef>
#include <cstdint>

namespace rondo::shm {

class Bell {
 public:
  Bell(int socket, const std::atomic<uint32_t>& sleeping) : socket_(socket), sleeping_(sleeping) {}

  // To be called after the seq_cst store that the peer should see, or after the one in ShmArea::wake().
  void ring_if_asleep() {
    // seq_cst: pairs with the seq_cst store of `sleeping` in ShmTransport::arm(). Either this load sees the sleeper, or
    // the sleeper's look around after that store sees what the caller stored.
    const uint32_t sleep = sleeping_.load(std::memory_order_seq_cst);
    if ((sleep & 1) == 0 || sleep == rung_) return;
    rung_ = sleep;
    const std::byte one{1};
    // A full socket is a bell that rings already; a closed one is noticed by the reader of this socket.
    (void)!send(socket_, &one, 1, MSG_NOSIGNAL | MSG_DONTWAIT);
  }

 private:
  int socket_;
  const std::atomic<uint32_t>& sleeping_;
  uint32_t rung_ = 0;
};

}  // namespace rondo::shm
