#include "transport/control.h"

#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <map>
#include <mutex>

#include "transport/address.h"
#include "transport/control_frame.h"

namespace rondo {
namespace {

constexpr size_t kQueueMax = 1 << 20;  // bytes that wait for a peer that does not read
constexpr size_t kReadBytes = 16 << 10;
constexpr int kReadsPerProgress = 16;
constexpr int kEventsMax = 32;

// What an epoll event is about: the kind in the upper half, the rank in the lower.
enum class Watch : uint32_t { socket = 0, process = 1, bell = 2 };
uint64_t tag(Watch watch, Rank rank) { return static_cast<uint64_t>(watch) << 32 | rank; }

struct Link {
  Rank rank = 0;
  UniqueFd socket, process;
  pid_t pid = 0;

  // Guarded by `mutex`, which is held for a few system calls that do not wait.
  std::mutex mutex;
  std::string out;
  size_t out_begin = 0;
  size_t shouts_taken = 0;
  bool wants_room = false;  // EPOLLOUT is watched
  bool overrun = false;     // the peer has left more than kQueueMax bytes unread

  std::atomic<bool> gone{false};  // nothing more can be sent; set by the lease holder, seen by shout()

  // Of the lease holder.
  std::string in;
  bool said_goodbye = false;
  bool drained = false;  // the last read left nothing behind
};

class Plane final : public ControlPlane {
 public:
  Plane(UniqueFd epoll, UniqueFd bell) : epoll_(std::move(epoll)), bell_(std::move(bell)) {}
  ~Plane() override;

  Status watch_bell();
  Status add(MeshLink link, pid_t pid, int64_t liveness_ms);

  void send(Rank to, const ControlMessage& message) override;
  void shout(const ControlMessage& message) override;
  bool progress(std::vector<ControlMessage>& messages) override;
  int wait_fd() const override { return epoll_.get(); }
  bool flushed() const override;

 private:
  Status watch(int fd, uint32_t events, uint64_t data, int operation);
  void take_shouts(Link& link);
  void flush(Link& link);
  void settle(Link& link);
  void ring();
  void answer_bell(std::vector<ControlMessage>& messages);
  // The socket's end as far as it is known: ok while it is open. Sets link.drained.
  Status read(Link& link, std::vector<ControlMessage>& messages);
  void lose(Link& link, const Status& why, std::vector<ControlMessage>& messages);
  std::string described(const Link& link) const;

  UniqueFd epoll_, bell_;
  std::map<Rank, std::unique_ptr<Link>> links_;  // fixed once made

  mutable std::mutex shouts_mutex_;  // held for a push or a copy of a pointer
  std::vector<std::shared_ptr<const std::string>> shouts_;
};

UniqueFd open_process(pid_t pid) {
  // Refusals are no failure: the socket tells as well, only later where a child has inherited it.
  return pid > 0 ? UniqueFd(static_cast<int>(syscall(SYS_pidfd_open, pid, 0))) : UniqueFd();
}

// Peers on other hosts can vanish without a word: the kernel asks for them.
void watch_liveness(int fd, int64_t liveness_ms) {
  auto address = local_address(fd);
  if (!address.ok() || address->family() == AF_UNIX || liveness_ms <= 0) return;
  const int on = 1, probes = 3;
  const int each_s = static_cast<int>(std::clamp<int64_t>(liveness_ms / 1000 / (probes + 1), 1, 3600));
  const auto limit_ms = static_cast<unsigned>(std::min<int64_t>(liveness_ms, INT32_MAX));
  setsockopt(fd, SOL_SOCKET, SO_KEEPALIVE, &on, sizeof on);
  setsockopt(fd, IPPROTO_TCP, TCP_KEEPIDLE, &each_s, sizeof each_s);
  setsockopt(fd, IPPROTO_TCP, TCP_KEEPINTVL, &each_s, sizeof each_s);
  setsockopt(fd, IPPROTO_TCP, TCP_KEEPCNT, &probes, sizeof probes);
  setsockopt(fd, IPPROTO_TCP, TCP_USER_TIMEOUT, &limit_ms, sizeof limit_ms);
}

Plane::~Plane() {
  // Unread bytes would turn the close into a reset, which can overtake what was sent last.
  char waste[4096];
  for (auto& [rank, link] : links_) {
    shutdown(link->socket.get(), SHUT_WR);
    for (int i = 0; i < 64 && recv(link->socket.get(), waste, sizeof waste, MSG_DONTWAIT) > 0; ++i) {
    }
  }
}

Status Plane::watch(int fd, uint32_t events, uint64_t data, int operation) {
  epoll_event event{};
  event.events = events;
  event.data.u64 = data;
  if (epoll_ctl(epoll_.get(), operation, fd, &event) < 0) return system_error(errno, "control plane: epoll");
  return {};
}

Status Plane::watch_bell() { return watch(bell_.get(), EPOLLIN, tag(Watch::bell, 0), EPOLL_CTL_ADD); }

Status Plane::add(MeshLink link, pid_t pid, int64_t liveness_ms) {
  if (link.sockets.size() != 1 || !link.sockets[0])
    return fail(Code::invalid, "control plane: rank {} comes with {} sockets, 1 is needed", link.rank,
                link.sockets.size());
  if (links_.contains(link.rank)) return fail(Code::invalid, "control plane: rank {} comes twice", link.rank);
  auto made = std::make_unique<Link>();
  made->rank = link.rank;
  made->socket = std::move(link.sockets[0]);
  made->pid = pid;
  made->process = open_process(pid);
  RONDO_TRY(prepare_stream(made->socket.get()));
  watch_liveness(made->socket.get(), liveness_ms);
  RONDO_TRY(watch(made->socket.get(), EPOLLIN, tag(Watch::socket, made->rank), EPOLL_CTL_ADD));
  if (made->process) RONDO_TRY(watch(made->process.get(), EPOLLIN, tag(Watch::process, made->rank), EPOLL_CTL_ADD));
  links_.emplace(made->rank, std::move(made));
  return {};
}

// The caller holds link.mutex, here and in the next two.
void Plane::take_shouts(Link& link) {
  const std::lock_guard lock(shouts_mutex_);
  for (; link.shouts_taken < shouts_.size(); ++link.shouts_taken) link.out += *shouts_[link.shouts_taken];
}

void Plane::flush(Link& link) {
  while (link.out_begin < link.out.size()) {
    const ssize_t sent = ::send(link.socket.get(), link.out.data() + link.out_begin, link.out.size() - link.out_begin,
                                MSG_NOSIGNAL | MSG_DONTWAIT);
    if (sent < 0 && errno == EINTR) continue;
    if (sent < 0 && errno == EAGAIN) break;
    if (sent < 0) {
      // The cause shows when the socket is read; what the peer sent before it died is still there.
      link.out_begin = link.out.size();
      break;
    }
    link.out_begin += static_cast<size_t>(sent);
  }
  if (link.out_begin == link.out.size()) {
    link.out.clear();
    link.out_begin = 0;
  }
}

void Plane::settle(Link& link) {
  if (link.gone.load(std::memory_order_relaxed)) {
    link.out.clear();
    link.out_begin = 0;
    return;
  }
  flush(link);
  const size_t waiting = link.out.size() - link.out_begin;
  if (waiting > kQueueMax) link.overrun = true;
  const bool wants_room = waiting > 0;
  if (wants_room == link.wants_room) return;
  link.wants_room = wants_room;
  const uint32_t events = EPOLLIN | (wants_room ? EPOLLOUT : 0u);
  // Fails only when the link has been given up since, and then nobody waits for room.
  (void)watch(link.socket.get(), events, tag(Watch::socket, link.rank), EPOLL_CTL_MOD);
}

void Plane::send(Rank to, const ControlMessage& message) {
  const auto found = links_.find(to);
  if (found == links_.end()) return;
  Link& link = *found->second;
  const std::lock_guard lock(link.mutex);
  take_shouts(link);
  if (!link.overrun) link.out += encode_control(message);
  settle(link);
  if (link.overrun) ring();
}

void Plane::ring() {
  const uint64_t one = 1;
  (void)!::write(bell_.get(), &one, sizeof one);  // a full counter rings already
}

void Plane::shout(const ControlMessage& message) {
  {
    const std::lock_guard lock(shouts_mutex_);
    shouts_.push_back(std::make_shared<const std::string>(encode_control(message)));
  }
  for (auto& [rank, link] : links_) {
    const std::unique_lock lock(link->mutex, std::try_to_lock);
    if (!lock.owns_lock()) continue;  // its holder may be past the shouts: progress() looks again
    take_shouts(*link);
    settle(*link);
  }
  ring();
}

bool Plane::flushed() const {
  size_t shouts;
  {
    const std::lock_guard lock(shouts_mutex_);
    shouts = shouts_.size();
  }
  for (const auto& [rank, link] : links_) {
    const std::lock_guard lock(link->mutex);
    if (link->gone.load(std::memory_order_relaxed)) continue;
    if (!link->out.empty() || link->shouts_taken < shouts) return false;
  }
  return true;
}

void Plane::answer_bell(std::vector<ControlMessage>& messages) {
  uint64_t count;
  (void)!::read(bell_.get(), &count, sizeof count);
  for (auto& [rank, link] : links_) {
    Status end;
    {
      const std::lock_guard lock(link->mutex);
      take_shouts(*link);
      settle(*link);
      if (link->overrun)
        end = fail(Code::peer, "{} does not read: {} bytes of control messages wait for it", described(*link),
                   link->out.size() - link->out_begin);
    }
    if (!end.ok()) lose(*link, end, messages);
  }
}

std::string Plane::described(const Link& link) const {
  return link.pid > 0 ? fmt::format("rank {} (pid {})", link.rank, link.pid) : fmt::format("rank {}", link.rank);
}

Status Plane::read(Link& link, std::vector<ControlMessage>& messages) {
  link.drained = false;
  for (int i = 0; i < kReadsPerProgress; ++i) {
    char buffer[kReadBytes];
    const ssize_t got = recv(link.socket.get(), buffer, sizeof buffer, MSG_DONTWAIT);
    if (got < 0 && errno == EINTR) continue;
    link.drained = got <= 0;
    if (got < 0 && errno == EAGAIN) return {};
    if (got < 0 && errno != ECONNRESET && errno != EPIPE)
      return fail(Code::peer, "{}: connection lost: {}", described(link), errno_text(errno));
    if (got <= 0) return fail(Code::peer, "{} exited or was killed without rondo_destroy", described(link));
    link.in.append(buffer, static_cast<size_t>(got));
    size_t used = 0;
    while (true) {
      auto frame = parse_control(bytes_of(link.in).subspan(used));
      if (!frame.ok())
        return fail(Code::peer, "{} sent a broken control message: {}", described(link), frame.status().text());
      if (frame->bytes == 0) break;
      used += frame->bytes;
      frame->message.from = link.rank;
      if (frame->message.kind == ControlKind::goodbye) link.said_goodbye = true;
      messages.push_back(std::move(frame->message));
    }
    link.in.erase(0, used);
  }
  return {};
}

// The descriptors stay open until the plane goes: another thread may be about to shout.
void Plane::lose(Link& link, const Status& why, std::vector<ControlMessage>& messages) {
  if (link.gone.load(std::memory_order_relaxed)) return;
  link.gone.store(true, std::memory_order_relaxed);  // a shout that misses it fails harmlessly in send
  epoll_ctl(epoll_.get(), EPOLL_CTL_DEL, link.socket.get(), nullptr);
  if (link.process) epoll_ctl(epoll_.get(), EPOLL_CTL_DEL, link.process.get(), nullptr);
  const std::lock_guard lock(link.mutex);
  settle(link);
  if (link.said_goodbye) return;
  ControlMessage lost;
  lost.kind = ControlKind::lost;
  lost.from = lost.culprit = link.rank;
  lost.code = Code::peer;
  lost.text = why.text();
  messages.push_back(std::move(lost));
}

bool Plane::progress(std::vector<ControlMessage>& messages) {
  const size_t before = messages.size();
  epoll_event events[kEventsMax];
  const int count = epoll_wait(epoll_.get(), events, kEventsMax, 0);
  for (int i = 0; i < count; ++i) {
    const auto watch = static_cast<Watch>(events[i].data.u64 >> 32);
    if (watch == Watch::bell) {
      answer_bell(messages);
      continue;
    }
    Link& link = *links_.at(static_cast<Rank>(events[i].data.u64));
    if (link.gone.load(std::memory_order_relaxed)) continue;
    Status end = read(link, messages);
    // A process that has ended can have left its socket to a child; everything it sent itself has been read above.
    if (end.ok() && watch == Watch::process && link.drained)
      end = fail(Code::peer, "{} exited or was killed without rondo_destroy", described(link));
    if (end.ok() && (events[i].events & EPOLLOUT) != 0) {
      const std::lock_guard lock(link.mutex);
      take_shouts(link);
      settle(link);
    }
    if (!end.ok()) lose(link, end, messages);
  }
  return messages.size() > before;
}

}  // namespace

Result<std::unique_ptr<ControlPlane>> ControlPlane::create(Rank rank, std::vector<MeshLink> links,
                                                           std::span<const pid_t> pids, int64_t liveness_ms) {
  UniqueFd epoll(epoll_create1(EPOLL_CLOEXEC));
  if (!epoll) return system_error(errno, "control plane: epoll");
  UniqueFd bell(eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK));
  if (!bell) return system_error(errno, "control plane: eventfd");
  auto plane = std::make_unique<Plane>(std::move(epoll), std::move(bell));
  RONDO_TRY(plane->watch_bell());
  for (MeshLink& link : links) {
    if (link.rank == rank) return fail(Code::invalid, "control plane: a link of rank {} to itself", rank);
    const pid_t pid = link.rank < pids.size() ? pids[link.rank] : 0;
    RONDO_TRY(plane->add(std::move(link), pid, liveness_ms));
  }
  return std::unique_ptr<ControlPlane>(std::move(plane));
}

}  // namespace rondo
