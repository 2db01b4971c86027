#include "transports/shm/exchange.h"

#include <poll.h>
#include <sys/random.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <utility>

#include "base/check.h"

namespace rondo::shm {

namespace {

// What travels with the memfd.
struct Offer {
  uint64_t magic = kMagic;
  uint64_t segment_bytes = 0;
  uint32_t pair = 0;  // the pair of the sender's segment that is for the receiver
  uint32_t unused = 0;
};

struct Proof {
  uint64_t nonce[2];
};

Status ready(int socket, short events, Rank rank, Deadline deadline) {
  for (;;) {
    pollfd waiting{.fd = socket, .events = events, .revents = 0};
    const int got = ::poll(&waiting, 1, deadline.poll_ms(1000));
    if (got > 0) return {};
    if (got < 0 && errno != EINTR) return system_error(errno, "shm: poll");
    if (deadline.passed()) return fail(Code::timeout, "shm: rank {} did not answer in time", rank);
  }
}

Status send_offer(int socket, Rank rank, const Offer& offer, int memfd, Deadline deadline) {
  Offer copy = offer;
  iovec part{&copy, sizeof copy};
  alignas(cmsghdr) char control[CMSG_SPACE(sizeof(int))] = {};
  msghdr message{};
  message.msg_iov = &part;
  message.msg_iovlen = 1;
  message.msg_control = control;
  message.msg_controllen = sizeof control;
  cmsghdr* head = CMSG_FIRSTHDR(&message);
  head->cmsg_level = SOL_SOCKET;
  head->cmsg_type = SCM_RIGHTS;
  head->cmsg_len = CMSG_LEN(sizeof(int));
  std::memcpy(CMSG_DATA(head), &memfd, sizeof memfd);
  for (;;) {
    const ssize_t sent = sendmsg(socket, &message, MSG_NOSIGNAL);
    if (sent == sizeof offer) return {};
    if (sent >= 0) return fail(Code::system, "shm: {} of {} bytes went to rank {}", sent, sizeof offer, rank);
    if (errno == EAGAIN || errno == EWOULDBLOCK) {
      RONDO_TRY(ready(socket, POLLOUT, rank, deadline));
    } else if (errno == ETOOMANYREFS && !deadline.passed()) {
      // Too many descriptors of this user are on their way; that ends as soon as others have received theirs.
      ::poll(nullptr, 0, 1);
    } else if (errno != EINTR) {
      return system_error(errno, fmt::format("shm: pass memory to rank {}", rank));
    }
  }
}

Status receive(int socket, Rank rank, void* into, size_t bytes, UniqueFd* memfd, Deadline deadline) {
  size_t got = 0;
  while (got < bytes) {
    iovec part{static_cast<std::byte*>(into) + got, bytes - got};
    alignas(cmsghdr) char control[CMSG_SPACE(4 * sizeof(int))];
    msghdr message{};
    message.msg_iov = &part;
    message.msg_iovlen = 1;
    message.msg_control = control;
    message.msg_controllen = sizeof control;
    const ssize_t now = recvmsg(socket, &message, MSG_CMSG_CLOEXEC);
    if (now < 0 && (errno == EAGAIN || errno == EWOULDBLOCK)) {
      RONDO_TRY(ready(socket, POLLIN, rank, deadline));
      continue;
    }
    if (now < 0 && errno == EINTR) continue;
    if (now < 0) return system_error(errno, fmt::format("shm: receive from rank {}", rank));
    if (now == 0) return fail(Code::peer, "shm: rank {} closed its socket while connecting", rank);
    for (cmsghdr* head = CMSG_FIRSTHDR(&message); head != nullptr; head = CMSG_NXTHDR(&message, head)) {
      if (head->cmsg_level != SOL_SOCKET || head->cmsg_type != SCM_RIGHTS) continue;
      const size_t count = (head->cmsg_len - CMSG_LEN(0)) / sizeof(int);
      for (size_t i = 0; i < count; ++i) {
        int fd;
        std::memcpy(&fd, CMSG_DATA(head) + i * sizeof fd, sizeof fd);
        UniqueFd owned(fd);  // whatever else was passed is closed
        if (memfd != nullptr && !*memfd) *memfd = std::move(owned);
      }
    }
    got += static_cast<size_t>(now);
  }
  return {};
}

Status check_owner(int socket, Rank rank) {
  ucred credentials{};
  socklen_t length = sizeof credentials;
  if (getsockopt(socket, SOL_SOCKET, SO_PEERCRED, &credentials, &length) != 0)
    return system_error(errno, "shm: SO_PEERCRED");
  if (credentials.uid != geteuid())
    return fail(Code::auth, "shm: rank {} runs as user {}, this rank as user {}", rank, credentials.uid, geteuid());
  return {};
}

}  // namespace

Result<std::vector<Link>> exchange_segments(std::vector<MeshLink> mesh, Segment& own, int memfd, Deadline deadline) {
  std::vector<Link> links;
  std::vector<Proof> own_nonces(mesh.size());
  for (uint32_t i = 0; i < mesh.size(); ++i) {
    const int socket = mesh[i].sockets[0].get();
    RONDO_TRY(check_owner(socket, mesh[i].rank));
    if (getrandom(&own_nonces[i], sizeof(Proof), 0) != sizeof(Proof)) return system_error(errno, "shm: getrandom");
    std::memcpy(own.pair(i).nonce, &own_nonces[i], sizeof(Proof));
    RONDO_TRY(
        send_offer(socket, mesh[i].rank, {.segment_bytes = own.geometry().segment_bytes, .pair = i}, memfd, deadline));
  }
  for (uint32_t i = 0; i < mesh.size(); ++i) {
    Link link{.rank = mesh[i].rank, .socket = std::move(mesh[i].sockets[0]), .pair_here = i};
    Offer offer;
    UniqueFd passed;
    RONDO_TRY(receive(link.socket.get(), link.rank, &offer, sizeof offer, &passed, deadline));
    if (offer.magic != kMagic || !passed)
      return fail(Code::peer, "shm: rank {} passed no memory (magic {:#x})", link.rank, offer.magic);
    auto segment = Segment::open(passed.get(), offer.segment_bytes, link.rank);
    if (!segment.ok()) return segment.status();
    link.segment = std::move(segment).value();
    if (offer.pair >= link.segment->geometry().pairs)
      return fail(Code::peer, "shm: rank {} gave pair {} of {}", link.rank, offer.pair, link.segment->geometry().pairs);
    link.pair_there = offer.pair;
    Proof proof;
    std::memcpy(&proof, link.segment->pair(link.pair_there).nonce, sizeof proof);
    // 16 bytes into an empty socket: always taken at once.
    if (::send(link.socket.get(), &proof, sizeof proof, MSG_NOSIGNAL) != sizeof proof)
      return system_error(errno, fmt::format("shm: answer rank {}", link.rank));
    links.push_back(std::move(link));
  }
  for (uint32_t i = 0; i < links.size(); ++i) {
    Proof proof;
    RONDO_TRY(receive(links[i].socket.get(), links[i].rank, &proof, sizeof proof, nullptr, deadline));
    if (std::memcmp(&proof, &own_nonces[i], sizeof proof) != 0)
      return fail(Code::peer, "shm: rank {} could not read what this rank wrote into its memory", links[i].rank);
  }
  return links;
}

}  // namespace rondo::shm
