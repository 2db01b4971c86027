// Non-blocking reads and writes on a socket that answer with a value. Stateless.
#pragma once

#include <sys/socket.h>
#include <sys/uio.h>

#include <cerrno>
#include <cstddef>

namespace rondo::tcp {

struct Moved {
  size_t bytes = 0;
  int error = 0;     // an errno; EAGAIN never: see `would_block`
  bool end = false;  // reads: the peer has closed its side
  bool would_block = false;
};

inline Moved moved_of(ssize_t count) {
  if (count >= 0) return {.bytes = static_cast<size_t>(count)};
  if (errno == EAGAIN || errno == EWOULDBLOCK) return {.would_block = true};
  return {.error = errno};
}

// One part goes by send and recv, which cost the kernel less than their gathering forms.
inline Moved write_gather(int fd, iovec* parts, size_t count) {
  if (count == 1) {
    ssize_t sent;
    do sent = send(fd, parts[0].iov_base, parts[0].iov_len, MSG_NOSIGNAL | MSG_DONTWAIT);
    while (sent < 0 && errno == EINTR);
    return moved_of(sent);
  }
  msghdr message{};
  message.msg_iov = parts;
  message.msg_iovlen = count;
  ssize_t sent;
  do sent = sendmsg(fd, &message, MSG_NOSIGNAL | MSG_DONTWAIT);
  while (sent < 0 && errno == EINTR);
  return moved_of(sent);
}

// `parts` hold at least one byte.
inline Moved read_scatter(int fd, iovec* parts, size_t count) {
  msghdr message{};
  message.msg_iov = parts;
  message.msg_iovlen = count;
  ssize_t got;
  do {
    got =
        count == 1 ? recv(fd, parts[0].iov_base, parts[0].iov_len, MSG_DONTWAIT) : recvmsg(fd, &message, MSG_DONTWAIT);
  } while (got < 0 && errno == EINTR);
  Moved moved = moved_of(got);
  moved.end = got == 0;
  return moved;
}

}  // namespace rondo::tcp
