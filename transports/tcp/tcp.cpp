#include "transports/tcp/tcp.h"

#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <sys/timerfd.h>

#include <algorithm>
#include <utility>

#include "base/check.h"
#include "transport/address.h"
#include "transport/mesh.h"
#include "transports/tcp/endpoint.h"

namespace rondo {
namespace tcp {
namespace {

constexpr size_t kMessageBytesMost = size_t{1} << 30;
constexpr uint32_t kStreamsMost = 64;
constexpr uint64_t kTimerEvent = UINT64_MAX;
// Awaited peers are asked directly, which spares a system call; from so many on, epoll tells which are worth asking.
constexpr size_t kDirectPeers = 3;
constexpr uint32_t kSweepEvery = 16;  // progress() calls, where awaited peers are asked directly
constexpr int kEventsPerSweep = 64;
constexpr int64_t kAcknowledgedNs = 1'000'000'000;  // between two looks at what peers have acknowledged

constexpr int kTcpRtoMaxMs = 44;  // TCP_RTO_MAX_MS; younger than the C library's headers
constexpr int kRtoMostMs = 1000;  // the least that it takes
constexpr int64_t kRtoLivenessMostMs = 10'000;

// Idle links: asks after 1 s, every second, until liveness_ms are over. Data under way is watched by
// TcpEndpoint::check_acknowledged and not by TCP_USER_TIMEOUT, which also ends links to hosts that answer but whose
// process is slow to read.
Status watch_idle(int fd, int64_t liveness_ms) {
  if (liveness_ms == 0) return {};
  const int on = 1, idle = 1, interval = 1;
  const int count = static_cast<int>(std::clamp<int64_t>(liveness_ms / 1000 - 1, 1, 100));
  const std::pair<std::pair<int, int>, int> options[] = {{{SOL_SOCKET, SO_KEEPALIVE}, on},
                                                         {{IPPROTO_TCP, TCP_KEEPIDLE}, idle},
                                                         {{IPPROTO_TCP, TCP_KEEPINTVL}, interval},
                                                         {{IPPROTO_TCP, TCP_KEEPCNT}, count}};
  for (const auto& [option, value] : options)
    if (setsockopt(fd, option.first, option.second, &value, sizeof value) != 0)
      return system_error(errno, fmt::format("tcp: socket option {}", option.second));
  // Without it the probes of a closed window come up to two minutes apart. Kernels before 6.15 do not know it, and then
  // a host that dies while its window is closed is found later. It also ends a link after some 15 s without an answer.
  const int rto_ms = kRtoMostMs;
  if (liveness_ms <= kRtoLivenessMostMs) setsockopt(fd, IPPROTO_TCP, kTcpRtoMaxMs, &rto_ms, sizeof rto_ms);
  return {};
}

class TcpTransport final : public Transport {
 public:
  static Result<std::unique_ptr<Transport>> create(const TcpOptions& options);
  ~TcpTransport() override;

  std::string_view name() const override { return "tcp"; }
  const Caps& caps() const override { return caps_; }
  std::string address() const override { return address_; }
  Status reaches(std::string_view address) const override;
  Status connect(std::span<const Peer> peers, Deadline deadline) override;
  Endpoint* endpoint(Rank rank) override { return rank < by_rank_.size() ? by_rank_[rank] : nullptr; }
  bool progress(std::vector<Completion>& completions) override;
  int wait_fd() const override { return epoll_.get(); }
  bool arm() override;
  void disarm() override {}
  Slot reserve(size_t, uint32_t) override { return {}; }
  void cancel(const Slot&) override {}
  Result<std::unique_ptr<SharedArea>> share(uint64_t, std::span<const Rank>, size_t, Writers) override {
    return std::unique_ptr<SharedArea>();
  }
  Result<void*> alloc(size_t) override { return fail(Code::unsupported, "tcp: no memory that peers can map"); }
  Status free(void*) override { return fail(Code::invalid, "tcp: free of memory that alloc() did not give"); }
  bool locate(const void*, size_t, uint64_t*) override { return false; }
  std::byte* view(Rank, uint64_t, size_t) override { return nullptr; }
  Status part(void*, size_t) override { return fail(Code::unsupported, "tcp: no memory that peers can map"); }

 private:
  explicit TcpTransport(const TcpOptions& options) : options_(options) {}
  bool read_awaited(size_t awaited);
  bool sweep();
  bool check_acknowledged();
  void linger();
  void run_timer(int64_t period_ns);

  const TcpOptions options_;
  Caps caps_;
  UniqueFd epoll_, timer_;
  bool timer_runs_ = false;
  std::unique_ptr<Listener> listener_;  // until connect() is done
  std::string address_;
  tcp::Shared shared_;
  std::vector<std::unique_ptr<TcpEndpoint>> endpoints_;
  std::vector<TcpEndpoint*> by_rank_;
  uint32_t turns_ = 0;
};

Result<std::unique_ptr<Transport>> TcpTransport::create(const TcpOptions& options) {
  if (options.streams == 0 || options.streams > kStreamsMost)
    return fail(Code::invalid, "tcp: {} sockets per peer, 1 to {} are possible", options.streams, kStreamsMost);
  if (options.message_bytes == 0 || options.message_bytes > kMessageBytesMost)
    return fail(Code::invalid, "tcp: messages of {} bytes, 1 to {} are possible", options.message_bytes,
                kMessageBytesMost);
  if (options.queue_messages == 0) return fail(Code::invalid, "tcp: a queue of no messages");
  if (options.liveness_ms < 0 || options.linger_ms < 0)
    return fail(Code::invalid, "tcp: negative times: liveness {} ms, linger {} ms", options.liveness_ms,
                options.linger_ms);
  std::unique_ptr<TcpTransport> made(new TcpTransport(options));
  auto listener =
      Listener::tcp({.host = options.host, .port_first = options.port_first, .port_last = options.port_last});
  if (!listener.ok()) return Status(listener.status().code(), "tcp: " + listener.status().text());
  made->listener_ = std::move(*listener);
  made->address_ = made->listener_->address();
  made->epoll_.reset(epoll_create1(EPOLL_CLOEXEC));
  if (!made->epoll_) return system_error(errno, "tcp: epoll");
  made->timer_.reset(timerfd_create(CLOCK_MONOTONIC, TFD_NONBLOCK | TFD_CLOEXEC));
  if (!made->timer_) return system_error(errno, "tcp: timer");
  epoll_event event{.events = EPOLLIN, .data = {.u64 = kTimerEvent}};
  if (epoll_ctl(made->epoll_.get(), EPOLL_CTL_ADD, made->timer_.get(), &event) != 0)
    return system_error(errno, "tcp: watch timer");
  const size_t inject = std::min(options.inject_bytes, options.message_bytes);
  made->caps_ = {.expose = true, .inject_bytes = inject, .message_bytes = options.message_bytes};
  made->shared_.message_bytes = options.message_bytes;
  made->shared_.inject_bytes = inject;
  made->shared_.queue_messages = options.queue_messages;
  made->shared_.staging_bytes = options.staging_bytes;
  made->shared_.liveness_ms = options.liveness_ms;
  made->shared_.epoll = made->epoll_.get();
  made->by_rank_.resize(options.identity.world);
  return std::unique_ptr<Transport>(std::move(made));
}

TcpTransport::~TcpTransport() {
  linger();
  endpoints_.clear();
}

Status TcpTransport::reaches(std::string_view address) const {
  if (!address.starts_with("tcp:")) return fail(Code::unsupported, "tcp: {} is not a TCP address", address);
  auto theirs = parse_address(address);
  if (!theirs.ok()) return Status(Code::unsupported, "tcp: " + theirs.status().text());
  auto mine = parse_address(address_);
  RONDO_TRY(mine.status());
  if (theirs->family() != mine->family())
    return fail(Code::unsupported, "tcp: {} and {} are of different address families", bare_address(address_),
                bare_address(address));
  return {};
}

Status TcpTransport::connect(std::span<const Peer> peers, Deadline deadline) {
  std::vector<std::string> addresses(options_.identity.world);
  size_t wanted = 0;
  for (const Peer& peer : peers) {
    if (peer.rank >= addresses.size() || peer.rank == options_.identity.rank)
      return fail(Code::invalid, "tcp: rank {} of {} cannot connect to rank {}", options_.identity.rank,
                  addresses.size(), peer.rank);
    RONDO_TRY(reaches(peer.address));
    if (by_rank_[peer.rank] != nullptr) continue;
    addresses[peer.rank] = peer.address;
    ++wanted;
  }
  if (wanted == 0) return {};
  if (!listener_) return fail(Code::invalid, "tcp: rank {} has connected to its peers before", options_.identity.rank);
  const MeshOptions mesh{
      .identity = options_.identity, .purpose = "tcp", .streams = options_.streams, .deadline = deadline};
  auto links = connect_mesh(mesh, *listener_, addresses);
  RONDO_TRY(links.status());
  listener_.reset();
  for (MeshLink& link : *links) {
    for (const UniqueFd& socket : link.sockets) RONDO_TRY(watch_idle(socket.get(), options_.liveness_ms));
    endpoints_.push_back(std::make_unique<TcpEndpoint>(
        TcpEndpoint::Options{link.rank, std::string(bare_address(addresses[link.rank])), std::move(link.sockets)},
        shared_));
    by_rank_[link.rank] = endpoints_.back().get();
  }
  return {};
}

bool TcpTransport::read_awaited(size_t awaited) {
  bool moved = false;
  for (const auto& endpoint : endpoints_) {
    if (awaited <= kDirectPeers && endpoint->wanted()) {
      moved |= endpoint->read();
    } else {
      moved |= endpoint->resume();
    }
  }
  return moved;
}

bool TcpTransport::sweep() {
  epoll_event events[kEventsPerSweep];
  int count;
  do count = epoll_wait(epoll_.get(), events, kEventsPerSweep, 0);
  while (count < 0 && errno == EINTR);
  bool moved = false;
  for (int i = 0; i < count; ++i) {
    if (events[i].data.u64 == kTimerEvent) {
      moved |= check_acknowledged();
      continue;
    }
    const auto rank = static_cast<Rank>(events[i].data.u64 >> 32);
    moved |= by_rank_[rank]->on_event(static_cast<uint32_t>(events[i].data.u64), events[i].events);
  }
  return moved;
}

bool TcpTransport::check_acknowledged() {
  uint64_t expirations;
  [[maybe_unused]] const ssize_t got = read(timer_.get(), &expirations, sizeof expirations);  // EAGAIN: read before
  const int64_t now = now_ns();
  bool any = false;
  for (const auto& endpoint : endpoints_) any |= endpoint->check_acknowledged(now);
  shared_.unacknowledged = any;
  if (!any) run_timer(0);
  return false;
}

void TcpTransport::run_timer(int64_t period_ns) {
  const timespec period{.tv_sec = period_ns / 1'000'000'000, .tv_nsec = period_ns % 1'000'000'000};
  const itimerspec setting{.it_interval = period, .it_value = period};
  timer_runs_ = timerfd_settime(timer_.get(), 0, &setting, nullptr) == 0 && period_ns != 0;
}

bool TcpTransport::progress(std::vector<Completion>& completions) {
  bool moved = false;
  size_t awaited = 0;
  for (const auto& endpoint : endpoints_) {
    moved |= endpoint->flush();
    awaited += endpoint->wanted();
  }
  moved |= read_awaited(awaited);
  if (awaited == 0 || awaited > kDirectPeers || ++turns_ % kSweepEvery == 0) moved |= sweep();
  for (const auto& endpoint : endpoints_) moved |= endpoint->settle();
  if (shared_.unacknowledged && !timer_runs_ && options_.liveness_ms > 0) run_timer(kAcknowledgedNs);
  if (shared_.completions.empty()) return moved;
  completions.insert(completions.end(), shared_.completions.begin(), shared_.completions.end());
  shared_.completions.clear();
  return true;
}

bool TcpTransport::arm() {
  if (!shared_.completions.empty()) return false;
  for (const auto& endpoint : endpoints_)
    if (!endpoint->arm()) return false;
  return true;
}

// Whatever was accepted reaches the peers' kernels before the sockets close: a socket that is closed with unread
// arrivals would throw away what it has not sent.
void TcpTransport::linger() {
  const Deadline deadline = Deadline::after_ms(options_.linger_ms);
  std::vector<int> descriptors;
  std::vector<pollfd> watched;
  bool shut = false;
  for (;;) {
    bool sending = false, unacknowledged = false;
    for (const auto& endpoint : endpoints_) {
      endpoint->flush();
      sending |= endpoint->sending();
      unacknowledged |= endpoint->unacknowledged();
    }
    if (!sending && !shut) {
      for (const auto& endpoint : endpoints_) endpoint->shut_down();
      shut = true;
      continue;
    }
    if ((shut && !unacknowledged) || deadline.passed()) return;
    descriptors.clear();
    watched.clear();
    for (const auto& endpoint : endpoints_) {
      endpoint->discard_arrivals();
      endpoint->add_descriptors(descriptors);
    }
    for (const int fd : descriptors)
      watched.push_back({.fd = fd, .events = static_cast<short>(POLLIN | (sending ? POLLOUT : 0))});
    // Acknowledgements wake nobody: they are looked for every millisecond.
    poll(watched.data(), watched.size(), deadline.poll_ms(1));
  }
}

}  // namespace
}  // namespace tcp

Result<std::unique_ptr<Transport>> make_tcp(const TcpOptions& options) { return tcp::TcpTransport::create(options); }

}  // namespace rondo
