#include "transports/tcp/endpoint.h"

#include <linux/sockios.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/epoll.h>
#include <sys/ioctl.h>

#include <algorithm>
#include <cstring>
#include <utility>

#include "base/check.h"
#include "transports/tcp/io.h"

namespace rondo::tcp {
namespace {

constexpr size_t kReadBytes = size_t{1} << 20;      // of one socket per progress()
constexpr int64_t kOtherStreamsNs = 1'000'000'000;  // the other sockets of a link end so soon after the first
constexpr int64_t kNsPerMs = 1'000'000;
constexpr uint8_t kProbes = 3;  // of a closed window, unanswered in a row
constexpr size_t kNoteBytes = sizeof(Message);

uint32_t hash(const StreamKey& key) {
  uint64_t h = key.comm;
  for (const uint64_t part :
       {uint64_t{key.seq}, uint64_t{key.slice}, uint64_t{key.lane}, static_cast<uint64_t>(key.kind)})
    h = (h ^ part) * 0x9e3779b97f4a7c15u;
  return static_cast<uint32_t>(h >> 32);
}

// Whether the host at the other end is there, for all that its kernel says. A host whose process reads slowly keeps its
// window closed and answers our probes, which come ever more seldom: what counts is whether the last thing sent to it
// has been answered, not how long ago.
bool answers(const tcp_info& info, int64_t liveness_ms) {
  if (info.tcpi_last_ack_recv < liveness_ms) return true;
  return info.tcpi_probes < kProbes && info.tcpi_last_ack_recv <= info.tcpi_last_data_sent;
}

}  // namespace

TcpEndpoint::TcpEndpoint(Options options, Shared& shared)
    : shared_(shared), peer_(options.peer), address_(std::move(options.address)) {
  streams_.reserve(options.sockets.size());
  for (UniqueFd& socket : options.sockets) {
    Stream& stream = streams_.emplace_back(std::move(socket), shared_);
    epoll_event event{.events = EPOLLIN, .data = {.u64 = uint64_t{peer_} << 32 | (streams_.size() - 1)}};
    if (epoll_ctl(shared_.epoll, EPOLL_CTL_ADD, stream.socket.get(), &event) != 0) {
      end(error_text(errno));
      return;
    }
    stream.interest = EPOLLIN;
  }
  exposed_.reserve(16);
}

TcpEndpoint::~TcpEndpoint() = default;

TcpEndpoint::Stream& TcpEndpoint::stream_of(const StreamKey& key) {
  return streams_.size() == 1 ? streams_[0] : streams_[hash(key) % streams_.size()];
}

Sent TcpEndpoint::send(const Frame& frame, const std::byte* data, Token token) {
  RONDO_CHECK(frame.bytes <= shared_.message_bytes);
  if (!end_.ok()) {
    status_ = end_;
    return Sent::failed;
  }
  Stream& stream = stream_of(key_of(frame));
  const Sent sent = stream.ended ? Sent::failed : stream.queue.send(stream.socket.get(), frame, data, token);
  if (sent == Sent::failed) {
    if (!stream.ended) break_stream(stream);
    end(cause_);
    status_ = end_;
    return sent;
  }
  if (sent != Sent::again) stream.touched = shared_.unacknowledged = true;
  return sent;
}

Sent TcpEndpoint::commit(const Frame&, const Slot&) {
  RONDO_CHECK(false && "tcp has no slots");
  return Sent::failed;
}

bool TcpEndpoint::poll(const StreamKey& key, Message* message) {
  if (arrivals_.take(key, message)) return true;
  wanted_ = true;
  // Nobody will ever send what was just asked for.
  if (!end_.ok()) {
    status_ = end_;
  } else if (stream_of(key).ended) {
    end(cause_);
    status_ = end_;
  }
  return false;
}

void TcpEndpoint::release(const Message& message) {
  held_bytes_ -= kNoteBytes;
  if (message.handle != 0) held_bytes_ -= shared_.staging.give(message.handle);
}

Receiver* TcpEndpoint::arriving(const StreamKey& key) {
  Receiver& receiver = stream_of(key).receiver;
  return receiver.incoming().open && key_of(receiver.incoming().frame) == key ? &receiver : nullptr;
}

bool TcpEndpoint::expose(const StreamKey& key, std::byte* memory, size_t bytes) {
  if (!end_.ok() || arriving(key) != nullptr) return false;
  for (const Exposure& exposure : exposed_)
    if (exposure.key == key) return false;
  for (const Message& message : arrivals_.waiting())
    if (key_of(message.frame) == key) return false;
  exposed_.push_back({key, memory, bytes});
  return true;
}

bool TcpEndpoint::withdraw(const StreamKey& key) {
  std::erase_if(exposed_, [&](const Exposure& exposure) { return exposure.key == key; });
  Receiver* receiver = end_.ok() ? arriving(key) : nullptr;
  if (receiver == nullptr || !receiver->incoming().placed) return true;
  // Half of it has been placed: the message moves to a buffer of our own and goes on there.
  Incoming& message = receiver->incoming();
  const Staging::Buffer buffer = shared_.staging.take(message.frame.bytes);
  if (buffer.data == nullptr) return false;
  if (message.got > 0) std::memcpy(buffer.data, message.target, message.got);
  message.target = buffer.data;
  message.handle = buffer.handle;
  message.placed = false;
  held_bytes_ += buffer.bytes;
  return true;
}

void TcpEndpoint::detach(Token token) {
  bool failed = false;
  for (Stream& stream : streams_)
    if (stream.queue.detach(token, &failed)) break;
  if (failed) end(fail(Code::no_memory, "tcp: no memory to detach a message to rank {} at {}", peer_, address_));
}

bool TcpEndpoint::peek_user(uint32_t comm, Frame* frame) {
  const Message* message = arrivals_.find_user(comm);
  if (message == nullptr) {
    wanted_ = true;
    return false;
  }
  *frame = message->frame;
  return true;
}

Status TcpEndpoint::begin(Incoming& message) {
  const Frame& frame = message.frame;
  const bool known = frame.kind == FrameKind::step || frame.kind == FrameKind::user;
  if (frame.version != kFrameVersion || !known || frame.bytes > shared_.message_bytes)
    return fail(Code::peer, "tcp: bad frame from rank {} at {}: version {}, kind {}, {} bytes of at most {}", peer_,
                address_, frame.version, static_cast<unsigned>(frame.kind), frame.bytes, shared_.message_bytes);
  const StreamKey key = key_of(frame);
  const auto offer =
      std::find_if(exposed_.begin(), exposed_.end(), [&](const Exposure& exposure) { return exposure.key == key; });
  if (offer != exposed_.end()) {
    message.placed = frame.bytes <= offer->bytes;
    message.target = offer->memory;
    exposed_.erase(offer);
  }
  if (!message.placed) {
    message.target = nullptr;
    if (frame.bytes > 0) {
      const Staging::Buffer buffer = shared_.staging.take(frame.bytes);
      if (buffer.data == nullptr)
        return fail(Code::no_memory, "tcp: no memory for {} bytes from rank {} at {}", frame.bytes, peer_, address_);
      message.target = buffer.data;
      message.handle = buffer.handle;
      held_bytes_ += buffer.bytes;
    }
  }
  held_bytes_ += kNoteBytes;
  return {};
}

void TcpEndpoint::finish(Incoming& message) {
  arrivals_.push({.frame = message.frame, .data = message.target, .placed = message.placed, .handle = message.handle});
  wanted_ = false;
}

bool TcpEndpoint::flush() {
  bool moved = false;
  for (Stream& stream : streams_) {
    if (stream.queue.empty() || stream.ended) continue;
    const bool went = stream.queue.flush(stream.socket.get(), shared_.completions);
    if (went) stream.touched = shared_.unacknowledged = true;
    moved |= went;
    if (stream.queue.error() == 0) continue;
    break_stream(stream);
    moved = true;
  }
  return moved;
}

// Nothing can be written any more. What the peer sent before may still be unread: the reading side ends the link.
void TcpEndpoint::break_stream(Stream& stream) {
  if (cause_.ok()) cause_ = error_text(stream.queue.error());
  if (cause_at_ns_ == 0) cause_at_ns_ = now_ns();
  stream.queue.abandon(shared_.completions);
  hung_up_ = true;
  read();
}

bool TcpEndpoint::read() {
  bool moved = false;
  for (Stream& stream : streams_)
    if (!stream.ended) moved |= read(stream);
  return moved;
}

bool TcpEndpoint::read(Stream& stream) {
  const Receiver::Outcome outcome = stream.receiver.read(stream.socket.get(), *this, kReadBytes);
  if (outcome.stop == Receiver::Stop::ended) {
    end_stream(stream, closed_text(stream));
  } else if (outcome.stop == Receiver::Stop::failed && !outcome.failure.ok()) {
    end(outcome.failure);
  } else if (outcome.stop == Receiver::Stop::failed) {
    const bool closed = outcome.error == ECONNRESET || outcome.error == EPIPE;
    end_stream(stream, closed ? closed_text(stream) : error_text(outcome.error));
  } else {
    // What the budget has stopped waits for resume(): the kernel need not report it, and may not know of it.
    set_interest(stream, wants_to_read(stream) ? stream.interest | EPOLLIN : stream.interest & ~EPOLLIN);
    return outcome.moved;
  }
  return true;
}

bool TcpEndpoint::resume() {
  bool moved = false;
  for (Stream& stream : streams_) {
    if (stream.ended || (stream.interest & EPOLLIN) != 0 || !wants_to_read(stream)) continue;
    moved |= read(stream);
  }
  return moved;
}

Status TcpEndpoint::closed_text(const Stream& stream) const {
  if (!stream.receiver.in_message())
    return fail(Code::peer, "tcp: rank {} at {} closed the connection", peer_, address_);
  const Incoming& message = const_cast<Stream&>(stream).receiver.incoming();
  if (!message.open)
    return fail(Code::peer, "tcp: rank {} at {} closed the connection in the middle of a frame", peer_, address_);
  return fail(Code::peer, "tcp: rank {} at {} closed the connection after {} of {} bytes of a message", peer_, address_,
              message.got, message.frame.bytes);
}

Status TcpEndpoint::error_text(int error) const {
  if (error == EPIPE || error == ECONNRESET)
    return fail(Code::peer, "tcp: rank {} at {} closed the connection", peer_, address_);
  const Status cause = system_error(error, fmt::format("tcp: connection to rank {} at {}", peer_, address_));
  return Status(Code::peer, cause.text());
}

void TcpEndpoint::end_stream(Stream& stream, Status cause) {
  if (cause_.ok()) cause_ = std::move(cause);
  if (cause_at_ns_ == 0) cause_at_ns_ = now_ns();
  stream.ended = true;
  stream.queue.abandon(shared_.completions);
  set_interest(stream, 0);
  if (std::all_of(streams_.begin(), streams_.end(), [](const Stream& s) { return s.ended; })) end(cause_);
}

void TcpEndpoint::end(Status cause) {
  if (!end_.ok()) return;
  end_ = cause_.ok() ? std::move(cause) : cause_;
  cause_ = end_;
  for (Stream& stream : streams_) {
    stream.ended = true;
    stream.queue.abandon(shared_.completions);
    Incoming& message = stream.receiver.incoming();
    if (message.open && message.handle != 0) held_bytes_ -= shared_.staging.give(message.handle);
    message = {};
    stream.socket.reset();  // leaves the epoll set by itself
  }
  exposed_.clear();
}

void TcpEndpoint::set_interest(Stream& stream, uint32_t events) {
  if (stream.interest == events || !stream.socket) return;
  const uint64_t index = static_cast<uint64_t>(&stream - streams_.data());
  epoll_event event{.events = events, .data = {.u64 = uint64_t{peer_} << 32 | index}};
  // An ended stream leaves the set: the kernel reports EPOLLHUP whatever was asked for.
  const int operation = events == 0 && stream.ended ? EPOLL_CTL_DEL : EPOLL_CTL_MOD;
  if (epoll_ctl(shared_.epoll, operation, stream.socket.get(), &event) == 0) stream.interest = events;
}

bool TcpEndpoint::wants_to_read(const Stream& stream) const {
  if (stream.ended) return false;
  return may_begin() || (stream.receiver.in_message() && !stream.receiver.has_frame());
}

bool TcpEndpoint::on_event(uint32_t index, uint32_t events) {
  if (!end_.ok() || index >= streams_.size() || streams_[index].ended) return false;
  Stream& stream = streams_[index];
  bool moved = false;
  // Reported whether asked for or not, so what is left (no more than a socket holds) is read at once.
  if ((events & (EPOLLHUP | EPOLLERR)) != 0) hung_up_ = true;
  if ((events & EPOLLOUT) != 0 && stream.queue.empty()) set_interest(stream, stream.interest & ~EPOLLOUT);
  if ((events & (EPOLLIN | EPOLLHUP | EPOLLERR)) != 0) moved = read(stream);
  return moved;
}

bool TcpEndpoint::settle() {
  if (!cause_.ok() && end_.ok() && cause_at_ns_ != 0 && now_ns() - cause_at_ns_ > kOtherStreamsNs) end(cause_);
  if (end_.ok() || !status_.ok() || !arrivals_.waiting().empty()) return false;
  status_ = end_;
  return true;
}

bool TcpEndpoint::arm() {
  if (!end_.ok()) return !status_.ok() || !arrivals_.waiting().empty();
  // The other sockets of a link that is about to end are watched by time.
  if (cause_at_ns_ != 0) return false;
  for (Stream& stream : streams_) {
    if (stream.ended) continue;
    if ((stream.interest & EPOLLIN) == 0 && wants_to_read(stream)) return false;
    const uint32_t in = stream.interest & EPOLLIN;
    set_interest(stream, in | (stream.queue.empty() ? 0 : uint32_t{EPOLLOUT}));
  }
  return true;
}

bool TcpEndpoint::check_acknowledged(int64_t now) {
  bool any = false;
  for (Stream& stream : streams_) {
    if (!stream.touched || stream.ended || !end_.ok()) continue;
    int waiting = 0;
    if (ioctl(stream.socket.get(), SIOCOUTQ, &waiting) != 0 || waiting == 0) {
      stream.touched = false;
      stream.waits_since_ns = 0;
      continue;
    }
    any = true;
    tcp_info info{};
    socklen_t bytes = sizeof info;
    if (getsockopt(stream.socket.get(), IPPROTO_TCP, TCP_INFO, &info, &bytes) != 0) continue;
    if (stream.waits_since_ns == 0) stream.waits_since_ns = now;
    const bool waits_long = now - stream.waits_since_ns >= shared_.liveness_ms * kNsPerMs;
    if (waits_long && !answers(info, shared_.liveness_ms))
      end(fail(Code::peer, "tcp: rank {} at {} has acknowledged nothing for {} ms, {} bytes are under way", peer_,
               address_, info.tcpi_last_ack_recv, waiting));
  }
  return any;
}

bool TcpEndpoint::sending() const {
  return end_.ok() && std::any_of(streams_.begin(), streams_.end(),
                                  [](const Stream& stream) { return !stream.ended && !stream.queue.empty(); });
}

bool TcpEndpoint::unacknowledged() {
  if (!end_.ok()) return false;
  for (Stream& stream : streams_) {
    if (!stream.socket) continue;
    int waiting = 0;
    tcp_info info{};
    socklen_t bytes = sizeof info;
    if (ioctl(stream.socket.get(), SIOCOUTQ, &waiting) != 0 || waiting == 0) continue;
    if (getsockopt(stream.socket.get(), IPPROTO_TCP, TCP_INFO, &info, &bytes) == 0 && info.tcpi_state != TCP_CLOSE)
      return true;
  }
  return false;
}

void TcpEndpoint::shut_down() {
  for (Stream& stream : streams_)
    if (stream.socket) shutdown(stream.socket.get(), SHUT_WR);
}

void TcpEndpoint::discard_arrivals() {
  std::byte scrap[16384];
  for (Stream& stream : streams_) {
    if (!stream.socket || stream.ended) continue;
    for (int i = 0; i < 64; ++i) {
      iovec part{scrap, sizeof scrap};
      const Moved moved = read_scatter(stream.socket.get(), &part, 1);
      if (moved.end || moved.error != 0) stream.ended = true;
      if (moved.bytes < sizeof scrap) break;
    }
  }
}

void TcpEndpoint::add_descriptors(std::vector<int>& descriptors) const {
  for (const Stream& stream : streams_)
    if (stream.socket && !stream.ended) descriptors.push_back(stream.socket.get());
}

}  // namespace rondo::tcp
