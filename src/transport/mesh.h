// Connected, authenticated sockets between all pairs of some ranks: what transports and the control plane stand on.
// Blocking with a deadline; used while a communicator is made, by one thread.
#pragma once

#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/clock.h"
#include "base/fd.h"
#include "base/status.h"
#include "transport/identity.h"

namespace rondo {

// A listening socket: TCP, or an abstract Unix socket (scoped to the network namespace, nothing on disk).
class Listener {
 public:
  struct TcpOptions {
    std::string host = "127.0.0.1";  // numeric address to bind
    uint16_t port_first = 0;         // 0: any free port
    uint16_t port_last = 0;
  };
  static Result<std::unique_ptr<Listener>> tcp(const TcpOptions& options);
  // A fresh random abstract name.
  static Result<std::unique_ptr<Listener>> unix_abstract();
  // A given abstract name; Code::system with EADDRINUSE when it is taken.
  static Result<std::unique_ptr<Listener>> unix_named(std::string_view name);
  // Takes over a socket that is bound and listening already (inherited from a launcher).
  static Result<std::unique_ptr<Listener>> adopt(UniqueFd fd);

  Listener(UniqueFd fd, std::string address) : fd_(std::move(fd)), address_(std::move(address)) {}
  int fd() const { return fd_.get(); }
  UniqueFd take_fd() { return std::move(fd_); }
  const std::string& address() const { return address_; }  // "tcp:127.0.0.1:4001", "tcp:[::1]:4001", "unix:NAME"

 private:
  UniqueFd fd_;
  std::string address_;
};

struct MeshOptions {
  Identity identity;
  std::string_view purpose;  // "control", "tcp", "shm": part of the handshake, so that sockets cannot be confused
  uint32_t streams = 1;      // sockets per peer
  Deadline deadline;
};

// One link: `streams` non-blocking, close-on-exec sockets to the peer, all authenticated.
struct MeshLink {
  Rank rank;
  std::vector<UniqueFd> sockets;
};

// Connects to every rank with a non-empty entry in `addresses` (indexed by rank; the own entry is ignored): the higher
// rank of a pair dials the lower. Accepts and handshakes in parallel, each with a deadline of its own; strangers are
// dropped and counted. The error names every missing rank and what is known of it.
Result<std::vector<MeshLink>> connect_mesh(const MeshOptions& options, Listener& listener,
                                           std::span<const std::string> addresses);

}  // namespace rondo
