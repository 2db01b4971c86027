// Loopback: all ranks of a world in one process, joined by queues. For tests of everything that stands on the transport
// contract, and for ranks that are threads. It plays two parts: one like shared memory (lends, slots, multicast) and
// one like a socket (large payloads pending until the receiver progresses, placed into exposed memory).
//
// One mutex guards the world, so ranks may be threads or be cranked in turn by one thread; then the same calls give the
// same answers. Each Transport obeys the contract's thread rule.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "transport/contract.h"

namespace rondo {

struct LoopbackOptions {
  size_t message_bytes = 64 * 1024;  // the largest payload
  size_t inject_bytes = 64 * 1024;   // larger payloads stay pending until the receiver progresses
  size_t ring_messages = 16;         // sent and not yet seen by the receiver's progress(), per direction; then `again`
  size_t slots = 16;                 // per rank; 0: no slots, no multicast, nothing lent
  size_t slot_bytes = 64 * 1024;
  bool expose = false;
  bool memory = true;  // share() and alloc() work

  static LoopbackOptions like_shm() { return {}; }
  static LoopbackOptions like_tcp() { return {.inject_bytes = 512, .slots = 0, .expose = true, .memory = false}; }
};

class LoopbackWorld {
 public:
  explicit LoopbackWorld(uint32_t world, const LoopbackOptions& options = {});
  ~LoopbackWorld();
  LoopbackWorld(const LoopbackWorld&) = delete;
  LoopbackWorld& operator=(const LoopbackWorld&) = delete;

  // The transport of a rank; the world owns it. connect() names the peers and returns at once.
  Transport& transport(Rank rank);
  // The same, handed over (once a rank). It may outlive the world; its destruction is an orderly close.
  std::unique_ptr<Transport> take(Rank rank);

  // The rank dies: what its peers have not been given is lost, they see the failure behind the data they were given,
  // and its own endpoints fail. Any thread.
  void kill(Rank rank);

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace rondo
