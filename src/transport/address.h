// Socket addresses and their text: "tcp:127.0.0.1:4001", "tcp:[::1]:4001", "unix:NAME" (abstract). Values; any thread.
#pragma once

#include <sys/socket.h>

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "base/fd.h"
#include "base/status.h"

namespace rondo {

inline constexpr size_t kAbstractNameMax = 107;  // sun_path without its leading NUL

struct SocketAddress {
  sockaddr_storage storage{};
  socklen_t bytes = 0;

  int family() const { return storage.ss_family; }
  const sockaddr* get() const { return reinterpret_cast<const sockaddr*>(&storage); }
};

// Numeric only: never asks a name server. Invalid: not one of the forms above.
Result<SocketAddress> parse_address(std::string_view text);
std::string format_address(const SocketAddress& address);
// "unix:NAME" and "tcp:HOST:PORT" without the scheme, as error texts show them.
std::string_view bare_address(std::string_view text);

// All stream addresses of a host (name or number); may ask a name server, which takes as long as it takes.
Result<std::vector<SocketAddress>> resolve(const std::string& host, uint16_t port);
// "host:port", "[v6]:port".
struct HostPort {
  std::string host;
  uint16_t port = 0;
};
Result<HostPort> parse_host_port(std::string_view text);

// A stream socket: non-blocking, close-on-exec, TCP without delay.
Result<UniqueFd> open_stream(int family);
// Makes an existing socket so.
Status prepare_stream(int fd);
// A listening one; `error` becomes the errno of the failure (EADDRINUSE: the address is taken).
Result<UniqueFd> listen_at(const SocketAddress& address, int& error);
Result<SocketAddress> local_address(int fd);
// "Connection refused (errno 111)".
std::string errno_text(int error);

// Ok unless the socket is a Unix one whose other end belongs to another user.
Status check_peer_user(int fd);

}  // namespace rondo
