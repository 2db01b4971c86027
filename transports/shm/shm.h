// The shared-memory transport: ranks of one host and one user, as processes or as threads of one process. Each rank
// owns one memfd segment that it alone writes and its peers map read-only; messages are descriptors in rings of that
// segment, with small payloads inside and large ones in slots that are lent to the reader. Locality is proven by
// passing the memfd over an abstract Unix socket; no name is left anywhere. layout.h shows what lies where.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>

#include "base/status.h"
#include "transport/contract.h"
#include "transport/identity.h"

namespace rondo {

struct ShmOptions {
  Identity identity;
  size_t segment_bytes =
      size_t{64} << 20;                  // a rank's budget; memory is taken from the system page by page, on first use
  size_t slot_bytes = size_t{64} << 10;  // the largest payload of one message
  bool by_reference = false;  // send() publishes large payloads that lie in memory from alloc() without a copy
  int64_t linger_ms = 2000;   // how long the destructor waits for peers to take what they were promised
};

// Fails when the options make no sense or the host has no memfd or abstract sockets.
Result<std::unique_ptr<Transport>> make_shm(const ShmOptions& options);

}  // namespace rondo
