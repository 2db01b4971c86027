// The TCP transport: authenticated sockets to every peer, non-blocking, no threads. A payload is sent from the caller's
// memory and received into exposed memory where there is some, else into a pooled buffer that poll() lends.
//
// Each stream key is pinned to one of the sockets of its link. A peer that nobody listens to is read until its unread
// messages fill a budget, then left to TCP's own flow control; whoever polls in vain makes it be read again, so that
// the budget cannot deadlock. A peer may be slow for as long as it likes: only a host that no longer answers
// (keepalive, and data that stays unacknowledged) ends a link by time, besides the end of the connection itself.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>

#include "base/status.h"
#include "transport/contract.h"
#include "transport/identity.h"

namespace rondo {

struct TcpOptions {
  Identity identity;
  std::string host = "127.0.0.1";  // numeric address to bind
  uint16_t port_first = 0;         // 0-0: any free port
  uint16_t port_last = 0;
  uint32_t streams = 1;                      // sockets per peer
  size_t message_bytes = size_t{256} << 10;  // the largest payload
  size_t inject_bytes = 1024;                // a payload of at most this is copied when the socket is full
  uint32_t queue_messages = 128;             // that wait for room in one socket, then `again`
  size_t staging_bytes = size_t{4} << 20;    // of one peer's messages that are held here
  int64_t liveness_ms = 5000;                // a host that answers nothing for so long is lost; 0: never
  int64_t linger_ms = 2000;                  // how long the destructor waits until peers have what was sent
};

// Binds the listening socket. Invalid: options that make no sense. System: no port of the range is free.
Result<std::unique_ptr<Transport>> make_tcp(const TcpOptions& options);

}  // namespace rondo
