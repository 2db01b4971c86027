#include "transport/address.h"

#include <fcntl.h>
#include <netdb.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/un.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <charconv>
#include <cstddef>
#include <cstring>
#include <system_error>

namespace rondo {
namespace {

constexpr int kBacklog = 4096;  // the kernel cuts it to net.core.somaxconn
constexpr std::string_view kTcp = "tcp:";
constexpr std::string_view kUnix = "unix:";

Result<SocketAddress> abstract_address(std::string_view name) {
  if (name.empty() || name.size() > kAbstractNameMax)
    return fail(Code::invalid, "abstract socket name of {} bytes: 1 to {} are possible", name.size(), kAbstractNameMax);
  SocketAddress address;
  auto* un = reinterpret_cast<sockaddr_un*>(&address.storage);
  un->sun_family = AF_UNIX;
  std::copy(name.begin(), name.end(), un->sun_path + 1);
  address.bytes = static_cast<socklen_t>(offsetof(sockaddr_un, sun_path) + 1 + name.size());
  return address;
}

Result<std::vector<SocketAddress>> look_up(const std::string& host, uint16_t port, int flags) {
  addrinfo hints{};
  hints.ai_family = AF_UNSPEC;
  hints.ai_socktype = SOCK_STREAM;
  hints.ai_flags = flags | AI_NUMERICSERV;
  addrinfo* found = nullptr;
  const int error = getaddrinfo(host.c_str(), std::to_string(port).c_str(), &hints, &found);
  if (error != 0) {
    const std::string why = error == EAI_SYSTEM ? errno_text(errno) : gai_strerror(error);
    return fail(Code::system, "look up host {}: {}", host, why);
  }
  std::vector<SocketAddress> addresses;
  for (const addrinfo* a = found; a != nullptr; a = a->ai_next) {
    if (a->ai_family != AF_INET && a->ai_family != AF_INET6) continue;
    SocketAddress address;
    std::memcpy(&address.storage, a->ai_addr, a->ai_addrlen);
    address.bytes = a->ai_addrlen;
    addresses.push_back(address);
  }
  freeaddrinfo(found);
  if (addresses.empty()) return fail(Code::system, "look up host {}: it has no ip address", host);
  return addresses;
}

}  // namespace

std::string errno_text(int error) {
  return fmt::format("{} (errno {})", std::generic_category().message(error), error);
}

Result<HostPort> parse_host_port(std::string_view text) {
  const size_t colon = text.rfind(':');
  if (colon == std::string_view::npos) return fail(Code::invalid, "address '{}' is not host:port", text);
  std::string_view host = text.substr(0, colon);
  const std::string_view digits = text.substr(colon + 1);
  if (host.size() >= 2 && host.front() == '[' && host.back() == ']')
    host = host.substr(1, host.size() - 2);
  else if (host.find(':') != std::string_view::npos)
    return fail(Code::invalid, "address '{}': an ipv6 address stands in brackets", text);
  uint16_t port = 0;
  const auto [end, error] = std::from_chars(digits.data(), digits.data() + digits.size(), port);
  if (host.empty() || host.find('\0') != std::string_view::npos || digits.empty() || error != std::errc() ||
      end != digits.data() + digits.size())
    return fail(Code::invalid, "address '{}' is not host:port with a port of 0 to 65535", text);
  return HostPort{std::string(host), port};
}

Result<std::vector<SocketAddress>> resolve(const std::string& host, uint16_t port) { return look_up(host, port, 0); }

Result<SocketAddress> parse_address(std::string_view text) {
  if (text.starts_with(kUnix)) return abstract_address(text.substr(kUnix.size()));
  if (!text.starts_with(kTcp)) return fail(Code::invalid, "address '{}' is neither tcp: nor unix:", text);
  auto parts = parse_host_port(text.substr(kTcp.size()));
  RONDO_TRY(parts.status());
  auto addresses = look_up(parts->host, parts->port, AI_NUMERICHOST);
  if (!addresses.ok()) return fail(Code::invalid, "address '{}' is not numeric", text);
  return addresses->front();
}

std::string format_address(const SocketAddress& address) {
  if (address.family() == AF_UNIX) {
    const auto* un = reinterpret_cast<const sockaddr_un*>(&address.storage);
    const size_t head = offsetof(sockaddr_un, sun_path) + 1;
    if (address.bytes <= head) return "unix:";
    return "unix:" + std::string(un->sun_path + 1, address.bytes - head);
  }
  char host[NI_MAXHOST] = "?";
  char port[NI_MAXSERV] = "?";
  getnameinfo(address.get(), address.bytes, host, sizeof host, port, sizeof port, NI_NUMERICHOST | NI_NUMERICSERV);
  return address.family() == AF_INET6 ? fmt::format("tcp:[{}]:{}", host, port) : fmt::format("tcp:{}:{}", host, port);
}

std::string_view bare_address(std::string_view text) {
  return text.starts_with(kTcp) ? text.substr(kTcp.size()) : text;
}

Status prepare_stream(int fd) {
  const int flags = fcntl(fd, F_GETFL);
  const int fd_flags = fcntl(fd, F_GETFD);
  if (flags < 0 || fd_flags < 0 || fcntl(fd, F_SETFL, flags | O_NONBLOCK) < 0 ||
      fcntl(fd, F_SETFD, fd_flags | FD_CLOEXEC) < 0)
    return system_error(errno, fmt::format("socket {}: set flags", fd));
  auto address = local_address(fd);
  RONDO_TRY(address.status());
  const int on = 1;
  if (address->family() != AF_UNIX && setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on) < 0)
    return system_error(errno, fmt::format("socket {}: set TCP_NODELAY", fd));
  return {};
}

Result<UniqueFd> open_stream(int family) {
  UniqueFd fd(socket(family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0));
  if (!fd) {
    const int error = errno;
    if (error == EMFILE) return system_error(error, "open a socket; the limit to raise is ulimit -n");
    return system_error(error, "open a socket");
  }
  RONDO_TRY(prepare_stream(fd.get()));
  return fd;
}

Result<UniqueFd> listen_at(const SocketAddress& address, int& error) {
  auto fd = open_stream(address.family());
  RONDO_TRY(fd.status());
  const int on = 1;
  if (address.family() != AF_UNIX) setsockopt(fd->get(), SOL_SOCKET, SO_REUSEADDR, &on, sizeof on);
  if (address.family() == AF_INET6) setsockopt(fd->get(), IPPROTO_IPV6, IPV6_V6ONLY, &on, sizeof on);
  if (bind(fd->get(), address.get(), address.bytes) < 0 || listen(fd->get(), kBacklog) < 0) {
    error = errno;
    return system_error(error, "listen on " + std::string(bare_address(format_address(address))));
  }
  return fd;
}

Result<SocketAddress> local_address(int fd) {
  SocketAddress address;
  address.bytes = sizeof address.storage;
  if (getsockname(fd, reinterpret_cast<sockaddr*>(&address.storage), &address.bytes) < 0)
    return system_error(errno, fmt::format("file descriptor {}: read its address", fd));
  return address;
}

Status check_peer_user(int fd) {
  auto address = local_address(fd);
  RONDO_TRY(address.status());
  if (address->family() != AF_UNIX) return {};
  ucred peer{};
  socklen_t bytes = sizeof peer;
  if (getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &peer, &bytes) < 0)
    return system_error(errno, "unix socket: read the peer's credentials");
  if (peer.uid != geteuid())
    return fail(Code::auth, "unix socket: the other end is process {} of user {}, not of user {}", peer.pid, peer.uid,
                geteuid());
  return {};
}

}  // namespace rondo
