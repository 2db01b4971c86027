#include "transport/dial.h"

#include <netinet/in.h>
#include <sys/socket.h>

#include <cerrno>
#include <cstring>

namespace rondo {
namespace {

constexpr int64_t kPauseLeastNs = 2'000'000;
constexpr int64_t kPauseMostNs = 200'000'000;
constexpr int kPollMostMs = 1000;
constexpr int kAcceptsPerStep = 64;

// Connecting to a free port of the ephemeral range can meet itself: the kernel joins both ends of one socket.
bool connected_to_itself(int fd) {
  sockaddr_storage mine{}, theirs{};
  socklen_t mine_bytes = sizeof mine, theirs_bytes = sizeof theirs;
  if (getsockname(fd, reinterpret_cast<sockaddr*>(&mine), &mine_bytes) < 0) return false;
  if (getpeername(fd, reinterpret_cast<sockaddr*>(&theirs), &theirs_bytes) < 0) return false;
  return mine.ss_family != AF_UNIX && mine_bytes == theirs_bytes && std::memcmp(&mine, &theirs, mine_bytes) == 0;
}

// Closes without TIME_WAIT, so that the port is free for the listener it was meant for.
void close_at_once(UniqueFd& fd) {
  const linger none{1, 0};
  setsockopt(fd.get(), SOL_SOCKET, SO_LINGER, &none, sizeof none);
  fd.reset();
}

std::string peer_text(const SocketAddress& address) {
  return address.family() == AF_UNIX ? "this host" : std::string(bare_address(format_address(address)));
}

}  // namespace

void PollSet::clear() {
  fds_.clear();
  wake_ = INT64_MAX;
}

size_t PollSet::add(int fd, short events) {
  fds_.push_back({fd, events, 0});
  return fds_.size() - 1;
}

Status PollSet::wait(Deadline deadline) {
  const Deadline until{std::min(deadline.at_ns, wake_)};
  const int count = poll(fds_.data(), fds_.size(), until.poll_ms(kPollMostMs));
  if (count >= 0) return {};
  const int error = errno;
  for (pollfd& fd : fds_) fd.revents = 0;
  return error == EINTR ? Status() : system_error(error, "wait for connections");
}

Dialer::Dialer(std::string address, const HandshakeOptions& options)
    : address_(std::move(address)), options_(options) {}

void Dialer::watch(PollSet& set) {
  slot_ = SIZE_MAX;
  if (done()) return;
  if (handshake_) {
    slot_ = set.add(handshake_->fd(), handshake_->events());
    set.wake_at(handshake_->deadline().at_ns);
  } else if (connecting_) {
    slot_ = set.add(connecting_.get(), POLLOUT);
    set.wake_at(attempt_ns_);
  } else {
    set.wake_at(next_ns_);
  }
}

void Dialer::retry(Status why, int64_t now) {
  auth_failures_ = why.code() == Code::auth ? auth_failures_ + 1 : 0;
  last_ = std::move(why);
  handshake_.reset();
  connecting_.reset();
  pause_ns_ = std::clamp(pause_ns_ * 2, kPauseLeastNs, kPauseMostNs);
  next_ns_ = now + pause_ns_;
}

void Dialer::open(int64_t now) {
  auto address = parse_address(address_);
  if (!address.ok()) return retry(address.status(), now);
  auto fd = open_stream(address->family());
  if (!fd.ok()) return retry(fd.status(), now);
  attempt_ns_ = now + kAttemptNs;
  const int result = connect(fd->get(), address->get(), address->bytes);
  const int error = errno;
  connecting_ = std::move(*fd);
  if (result == 0) return shake(now);
  if (error != EINPROGRESS && error != EINTR) retry(Status(Code::system, errno_text(error)), now);
}

void Dialer::shake(int64_t now) {
  if (connected_to_itself(connecting_.get())) {
    close_at_once(connecting_);
    return retry(Status(Code::system, errno_text(ECONNREFUSED)), now);
  }
  if (Status user = check_peer_user(connecting_.get()); !user.ok()) return retry(std::move(user), now);
  options_.deadline = {now + kAttemptNs};
  handshake_ = std::make_unique<Handshake>(std::move(connecting_), Role::dialer, options_);
  if (handshake_->advance() == Handshake::State::failed) retry(handshake_->why(), now);
}

void Dialer::step(const PollSet& set, int64_t now) {
  if (done()) return;
  if (handshake_) {
    if (!set.ready(slot_) && now < handshake_->deadline().at_ns) return;
    if (handshake_->advance() == Handshake::State::failed) retry(handshake_->why(), now);
    return;
  }
  if (!connecting_) {
    if (now >= next_ns_) open(now);
    return;
  }
  if (!set.ready(slot_)) {
    if (now >= attempt_ns_) retry(Status(Code::system, errno_text(ETIMEDOUT)), now);
    return;
  }
  int error = 0;
  socklen_t bytes = sizeof error;
  if (getsockopt(connecting_.get(), SOL_SOCKET, SO_ERROR, &error, &bytes) < 0) error = errno;
  if (error != 0) return retry(Status(Code::system, errno_text(error)), now);
  shake(now);
}

Status Dialer::why() const {
  if (!last_.ok()) return last_;
  if (handshake_) return fail(Code::timeout, "it accepted the connection but did not answer");
  return fail(Code::timeout, "no answer to the connection request");
}

Acceptor::Acceptor(std::vector<int> listeners, const HandshakeOptions& options, Judge judge)
    : listeners_(std::move(listeners)), options_(options), judge_(std::move(judge)) {}

void Acceptor::watch(PollSet& set) {
  slots_.clear();
  for (const int listener : listeners_) slots_.push_back(set.add(listener, POLLIN));
  for (Pending& pending : pending_) {
    pending.slot = set.add(pending.handshake->fd(), pending.handshake->events());
    set.wake_at(pending.handshake->deadline().at_ns);
  }
}

void Acceptor::drop(const Pending& pending, const Status& why) {
  ++strangers_;
  if (why.code() == Code::auth) ++auth_failures_;
  last_ = fmt::format("from {}: {}", pending.address, why.text());
}

// Makes room for another descriptor: the oldest connection that has not said anything of ours goes.
bool Acceptor::evict() {
  for (auto pending = pending_.begin(); pending != pending_.end(); ++pending) {
    if (pending->handshake->heard()) continue;
    drop(*pending, fail(Code::timeout, "silent while others wait"));
    pending_.erase(pending);
    return true;
  }
  return false;
}

Status Acceptor::accept_from(int listener, int64_t now) {
  for (int count = 0; count < kAcceptsPerStep; ++count) {
    if (pending_.size() >= kPendingMax && !evict()) return {};
    SocketAddress address;
    address.bytes = sizeof address.storage;
    UniqueFd fd(
        accept4(listener, reinterpret_cast<sockaddr*>(&address.storage), &address.bytes, SOCK_NONBLOCK | SOCK_CLOEXEC));
    if (!fd) {
      const int error = errno;
      if (error == EAGAIN) return {};
      if ((error == EMFILE || error == ENFILE) && evict()) continue;
      if (error == EMFILE) return system_error(error, "accept a connection; the limit to raise is ulimit -n");
      if (error == EBADF || error == EINVAL || error == ENOTSOCK || error == ENFILE || error == ENOMEM)
        return system_error(error, "accept a connection");
      continue;  // the connection itself has failed, or a signal came
    }
    Pending pending;
    pending.address = peer_text(address);
    Status fit = prepare_stream(fd.get());
    if (fit.ok()) fit = check_peer_user(fd.get());
    if (!fit.ok()) {
      drop(pending, fit);
      continue;
    }
    options_.deadline = {now + kHandshakeNs};
    pending.handshake = std::make_unique<Handshake>(std::move(fd), Role::acceptor, options_);
    pending_.push_back(std::move(pending));
  }
  return {};
}

// Whether the connection stays pending.
bool Acceptor::advance(Pending& pending, std::vector<Guest>& guests) {
  Handshake& handshake = *pending.handshake;
  Handshake::State state = handshake.advance();
  if (state == Handshake::State::asking) {
    if (Status fit = judge_(handshake.peer()); !fit.ok()) {
      drop(pending, fit);
      return false;
    }
    handshake.welcome();
    state = handshake.advance();
  }
  if (state == Handshake::State::failed) drop(pending, handshake.why());
  if (state == Handshake::State::done)
    guests.push_back({handshake.peer(), handshake.session_key(), handshake.take_fd(), pending.address});
  return state == Handshake::State::working;
}

Status Acceptor::step(const PollSet& set, int64_t now, std::vector<Guest>& guests) {
  Status failure;
  for (size_t i = 0; i < slots_.size(); ++i)
    if (set.ready(slots_[i]) && failure.ok()) failure = accept_from(listeners_[i], now);
  // New connections have no slot yet and are looked at at once.
  std::erase_if(pending_, [&](Pending& pending) {
    const bool due = pending.slot == SIZE_MAX || set.ready(pending.slot) || now >= pending.handshake->deadline().at_ns;
    return due && !advance(pending, guests);
  });
  return failure;
}

std::string Acceptor::dropped_text() const {
  if (strangers_ == 0) return {};
  return fmt::format("; dropped {} connection{} of strangers, {} without the job key, the last {}", strangers_,
                     strangers_ == 1 ? "" : "s", auth_failures_, last_);
}

}  // namespace rondo
