#include "transports/shm/exchange.h"

#include <poll.h>
#include <sys/random.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <string>
#include <string_view>
#include <utility>

#include "base/check.h"

namespace rondo::shm {

namespace {

constexpr int kLookEveryMs = 10;
constexpr size_t kMostDescriptors = 2;  // segment, heap

// What travels with the descriptors.
struct Offer {
  uint64_t magic = kMagic;
  uint64_t segment_bytes = 0;
  uint64_t heap_bytes = 0;  // 0: no heap is passed
  uint32_t pair = 0;        // the pair of the sender's segment that is for the receiver
  uint32_t unused = 0;
};

struct Nonce {
  uint64_t words[2] = {};
  bool operator==(const Nonce&) const = default;
};

// The answer to an offer.
struct Proof {
  Nonce nonce;             // read in the offered segment
  uint32_t maps_heap = 0;  // nonzero: the offered heap is mapped, and may be named in messages
  uint32_t unused = 0;
};

// How far the exchange with one peer has come: offer sent; offer received and answered; answer received.
struct Meeting {
  Link link;
  Nonce nonce;  // the own segment's, for this peer
  bool offered = false;
  Offer offer;
  Proof proof;
  size_t offer_got = 0, proof_got = 0;  // bytes
  std::vector<UniqueFd> passed;

  bool over() const { return offered && proof_got == sizeof(Proof); }
};

bool is_again(int error) { return error == EAGAIN || error == EWOULDBLOCK || error == EINTR; }

// What the socket to a peer met; a peer that has gone is its own code, so that the cause is looked for.
Status socket_error(int error, Rank rank, std::string_view doing) {
  if (error == EPIPE || error == ECONNRESET)
    return fail(Code::peer, "shm: rank {} closed its socket while connecting ({})", rank, doing);
  return system_error(error, fmt::format("shm: {} rank {}", doing, rank));
}

// Sends the offer if the socket takes it now.
Status offer_memory(Meeting& meeting, Offer offer, const Passed& memory) {
  const int fds[kMostDescriptors] = {memory.segment_fd, memory.heap_fd};
  const size_t fds_bytes = (memory.heap_fd < 0 ? 1 : 2) * sizeof(int);
  iovec part{&offer, sizeof offer};
  alignas(cmsghdr) char control[CMSG_SPACE(sizeof fds)] = {};
  msghdr message{};
  message.msg_iov = &part;
  message.msg_iovlen = 1;
  message.msg_control = control;
  message.msg_controllen = CMSG_SPACE(fds_bytes);
  cmsghdr* head = CMSG_FIRSTHDR(&message);
  head->cmsg_level = SOL_SOCKET;
  head->cmsg_type = SCM_RIGHTS;
  head->cmsg_len = CMSG_LEN(fds_bytes);
  std::memcpy(CMSG_DATA(head), fds, sizeof fds);  // cmsg_len says how many of them count
  const ssize_t sent = sendmsg(meeting.link.socket.get(), &message, MSG_NOSIGNAL | MSG_DONTWAIT);
  meeting.offered = sent == sizeof offer;
  // Too many references: descriptors of this user are on their way; that ends as soon as others have received theirs.
  if (meeting.offered || (sent < 0 && (is_again(errno) || errno == ETOOMANYREFS))) return {};
  if (sent >= 0)
    return fail(Code::system, "shm: {} of {} bytes went to rank {}", sent, sizeof offer, meeting.link.rank);
  return socket_error(errno, meeting.link.rank, "pass memory to");
}

// Takes what has arrived of a record; descriptors that come along are kept, up to the two that are expected.
Status receive(Meeting& meeting, void* record, size_t bytes, size_t* got) {
  const Rank rank = meeting.link.rank;
  iovec part{static_cast<std::byte*>(record) + *got, bytes - *got};
  alignas(cmsghdr) char control[CMSG_SPACE(2 * kMostDescriptors * sizeof(int))];
  msghdr message{};
  message.msg_iov = &part;
  message.msg_iovlen = 1;
  message.msg_control = control;
  message.msg_controllen = sizeof control;
  const ssize_t now = recvmsg(meeting.link.socket.get(), &message, MSG_CMSG_CLOEXEC | MSG_DONTWAIT);
  if (now < 0 && is_again(errno)) return {};
  if (now < 0) return socket_error(errno, rank, "receive from");
  if (now == 0) return fail(Code::peer, "shm: rank {} closed its socket while connecting", rank);
  for (cmsghdr* head = CMSG_FIRSTHDR(&message); head != nullptr; head = CMSG_NXTHDR(&message, head)) {
    if (head->cmsg_level != SOL_SOCKET || head->cmsg_type != SCM_RIGHTS) continue;
    const size_t count = (head->cmsg_len - CMSG_LEN(0)) / sizeof(int);
    for (size_t i = 0; i < count; ++i) {
      int fd;
      std::memcpy(&fd, CMSG_DATA(head) + i * sizeof fd, sizeof fd);
      UniqueFd owned(fd);  // what is too many is closed
      if (meeting.passed.size() < kMostDescriptors) meeting.passed.push_back(std::move(owned));
    }
  }
  *got += static_cast<size_t>(now);
  return {};
}

// Maps what was offered and answers with what stands there.
Status answer(Meeting& meeting) {
  Link& link = meeting.link;
  const Offer& offer = meeting.offer;
  if (offer.magic != kMagic || meeting.passed.empty())
    return fail(Code::peer, "shm: rank {} passed no memory (magic {:#x})", link.rank, offer.magic);
  auto segment = Segment::open(meeting.passed[0].get(), offer.segment_bytes, link.rank);
  if (!segment.ok()) return segment.status();
  link.segment = std::move(segment).value();
  if (offer.pair >= link.segment->geometry().pairs)
    return fail(Code::peer, "shm: rank {} gave pair {} of {}", link.rank, offer.pair, link.segment->geometry().pairs);
  link.pair_there = offer.pair;
  if (offer.heap_bytes > 0 && meeting.passed.size() == 2) {
    // Without it everything is copied: address space may be limited here.
    auto heap = map_passed(meeting.passed[1].get(), offer.heap_bytes, Access::write);
    if (heap.ok()) link.heap = std::make_shared<Mapping>(std::move(heap).value());
  }
  meeting.passed.clear();
  Proof proof{.maps_heap = link.heap != nullptr};
  std::memcpy(&proof.nonce, link.segment->pair(link.pair_there).nonce, sizeof proof.nonce);
  // A few bytes into a socket that holds nothing but the offer: always taken at once.
  if (::send(link.socket.get(), &proof, sizeof proof, MSG_NOSIGNAL | MSG_DONTWAIT) != sizeof proof)
    return socket_error(errno, link.rank, "answer");
  return {};
}

// One attempt at whatever comes next; `*moved` when something has happened.
Status advance(Meeting& meeting, const Offer& offer, const Passed& memory, bool* moved) {
  if (!meeting.offered) {
    RONDO_TRY(offer_memory(meeting, offer, memory));
    *moved |= meeting.offered;
  }
  if (meeting.offer_got < sizeof(Offer)) {
    const size_t before = meeting.offer_got;
    RONDO_TRY(receive(meeting, &meeting.offer, sizeof(Offer), &meeting.offer_got));
    *moved |= meeting.offer_got != before;
    return meeting.offer_got == sizeof(Offer) ? answer(meeting) : Status();
  }
  const size_t before = meeting.proof_got;
  RONDO_TRY(receive(meeting, &meeting.proof, sizeof(Proof), &meeting.proof_got));
  *moved |= meeting.proof_got != before;
  if (meeting.proof_got < sizeof(Proof)) return {};
  if (!(meeting.proof.nonce == meeting.nonce))
    return fail(Code::peer, "shm: rank {} could not read what this rank wrote into its memory", meeting.link.rank);
  meeting.link.maps_heap = meeting.proof.maps_heap != 0 && memory.heap_fd >= 0;
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

void wait_for_any(const std::vector<Meeting>& meetings, Deadline deadline) {
  std::vector<pollfd> waiting;
  for (const Meeting& meeting : meetings)
    if (!meeting.over()) waiting.push_back({.fd = meeting.link.socket.get(), .events = POLLIN, .revents = 0});
  ::poll(waiting.data(), waiting.size(), deadline.poll_ms(kLookEveryMs));
}

std::string absent(const std::vector<Meeting>& meetings) {
  std::string ranks;
  for (const Meeting& meeting : meetings)
    if (!meeting.over()) ranks += fmt::format("{}{}", ranks.empty() ? "" : ", ", meeting.link.rank);
  return ranks;
}

}  // namespace

Result<std::vector<Link>> exchange_segments(std::vector<MeshLink> mesh, Segment& own, const Passed& memory,
                                            Deadline deadline) {
  std::vector<Meeting> meetings(mesh.size());
  for (uint32_t i = 0; i < mesh.size(); ++i) {
    Meeting& meeting = meetings[i];
    meeting.link = {.rank = mesh[i].rank, .socket = std::move(mesh[i].sockets[0]), .pair_here = i};
    RONDO_TRY(check_owner(meeting.link.socket.get(), meeting.link.rank));
    if (getrandom(&meeting.nonce, sizeof(Nonce), 0) != sizeof(Nonce)) return system_error(errno, "shm: getrandom");
    std::memcpy(own.pair(i).nonce, &meeting.nonce, sizeof(Nonce));
  }
  for (;;) {
    bool moved = false, over = true;
    for (Meeting& meeting : meetings) {
      if (meeting.over()) continue;
      const Offer offer{.segment_bytes = own.geometry().segment_bytes,
                        .heap_bytes = memory.heap_fd < 0 ? 0 : memory.heap_bytes,
                        .pair = meeting.link.pair_here};
      RONDO_TRY(advance(meeting, offer, memory, &moved));
      over &= meeting.over();
    }
    if (over) break;
    if (deadline.passed()) return fail(Code::timeout, "shm: no memory came in time from rank {}", absent(meetings));
    if (!moved) wait_for_any(meetings, deadline);
  }
  std::vector<Link> links;
  for (Meeting& meeting : meetings) links.push_back(std::move(meeting.link));
  return links;
}

}  // namespace rondo::shm
