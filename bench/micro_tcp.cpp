// micro_tcp: what the TCP transport costs over a bare socket, between two processes on the loopback device. Both sides
// run in turn, so that whatever else the machine does hits both. Spinning on both sides.
//
//   micro_tcp [--rounds N]    ping-pong: half a round trip; stream: 256 KiB messages, several under way
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sched.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <charconv>
#include <cstring>
#include <string_view>
#include <vector>

#include <fmt/core.h>

#include "base/fd.h"
#include "transports/tcp/tcp.h"

using namespace rondo;

namespace {

constexpr int64_t kPatienceMs = 60'000;
constexpr size_t kStreamBytes = size_t{256} << 10;
constexpr size_t kStreamMessages = 1024;
constexpr size_t kUnderWay = 4;

[[noreturn]] void die(std::string_view what) {
  fmt::print(stderr, "micro_tcp: {}\n", what);
  _exit(1);
}

// One side of the pair, by whichever means.
class Link {
 public:
  virtual ~Link() = default;
  virtual void send(const std::byte* data, size_t bytes) = 0;  // returns when `data` may change again
  virtual void receive(std::byte* data, size_t bytes) = 0;
  // Sends `count` times the same; returns when all of it has left.
  virtual void send_many(const std::byte* data, size_t bytes, size_t count) {
    for (size_t i = 0; i < count; ++i) send(data, bytes);
  }
};

class BareLink final : public Link {
 public:
  explicit BareLink(int fd) : fd_(fd) {}
  void send(const std::byte* data, size_t bytes) override {
    for (size_t sent = 0; sent < bytes;) {
      const ssize_t count = ::send(fd_, data + sent, bytes - sent, MSG_NOSIGNAL | MSG_DONTWAIT);
      if (count < 0 && errno != EAGAIN && errno != EINTR) die("bare send failed");
      sent += count > 0 ? static_cast<size_t>(count) : 0;
    }
  }
  void receive(std::byte* data, size_t bytes) override {
    for (size_t got = 0; got < bytes;) {
      const ssize_t count = ::recv(fd_, data + got, bytes - got, MSG_DONTWAIT);
      if (count == 0 || (count < 0 && errno != EAGAIN && errno != EINTR)) die("bare receive failed");
      got += count > 0 ? static_cast<size_t>(count) : 0;
    }
  }

 private:
  const int fd_;
};

class TransportLink final : public Link {
 public:
  TransportLink(Transport& transport, Rank peer) : transport_(transport), link_(*transport.endpoint(peer)) {}

  void send(const std::byte* data, size_t bytes) override { send_many(data, bytes, 1); }
  void send_many(const std::byte* data, size_t bytes, size_t count) override {
    for (size_t i = 0; i < count; ++i) {
      Sent sent;
      while ((sent = link_.send({.bytes = bytes}, data, 0)) == Sent::again) progress();
      if (sent == Sent::failed) die(link_.status().text());
      pending_ += sent == Sent::pending;
      while (pending_ >= kUnderWay) progress();
    }
    while (pending_ > 0) progress();
  }
  void receive(std::byte* data, size_t bytes) override {
    const StreamKey key = key_of(Frame{});
    const bool exposed = bytes >= 4096 && link_.expose(key, data, bytes);
    Message message;
    while (!link_.poll(key, &message)) progress();
    if (!message.placed) std::memcpy(data, message.data, bytes);
    link_.release(message);
    if (exposed && !message.placed) static_cast<void>(link_.withdraw(key));
  }

 private:
  void progress() {
    completions_.clear();
    transport_.progress(completions_);
    pending_ -= completions_.size();
    if (!link_.status().ok()) die(link_.status().text());
  }

  Transport& transport_;
  Endpoint& link_;
  std::vector<Completion> completions_;
  size_t pending_ = 0;
};

struct Sockets {
  UniqueFd ends[2];
};

Sockets bare_sockets() {
  UniqueFd listener(socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
  sockaddr_in address{.sin_family = AF_INET, .sin_addr = {.s_addr = htonl(INADDR_LOOPBACK)}};
  socklen_t bytes = sizeof address;
  auto* generic = reinterpret_cast<sockaddr*>(&address);
  if (bind(listener.get(), generic, bytes) != 0 || listen(listener.get(), 1) != 0 ||
      getsockname(listener.get(), generic, &bytes) != 0)
    die("no bare listener");
  Sockets made;
  made.ends[1].reset(socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
  if (connect(made.ends[1].get(), generic, bytes) != 0) die("bare connect failed");
  made.ends[0].reset(accept(listener.get(), nullptr, nullptr));
  const int on = 1;
  for (const UniqueFd& end : made.ends) setsockopt(end.get(), IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
  return made;
}

double ping_pong_us(Link& link, bool first, std::vector<std::byte>& data, size_t bytes, size_t turns) {
  const int64_t start = now_ns();
  for (size_t i = 0; i < turns; ++i) {
    if (first) link.send(data.data(), bytes);
    link.receive(data.data(), bytes);
    if (!first) link.send(data.data(), bytes);
  }
  return static_cast<double>(now_ns() - start) / 2e3 / static_cast<double>(turns);
}

double stream_gb_per_s(Link& link, bool first, std::vector<std::byte>& data) {
  const int64_t start = now_ns();
  if (first) {
    link.send_many(data.data(), kStreamBytes, kStreamMessages);
    link.receive(data.data(), 1);
  } else {
    for (size_t i = 0; i < kStreamMessages; ++i) link.receive(data.data(), kStreamBytes);
    link.send(data.data(), 1);
  }
  return static_cast<double>(kStreamBytes * kStreamMessages) / static_cast<double>(now_ns() - start);
}

double median(std::vector<double> values) {
  std::nth_element(values.begin(), values.begin() + static_cast<ptrdiff_t>(values.size() / 2), values.end());
  return values[values.size() / 2];
}

void measure(Link& bare, Link& transport, bool first, size_t rounds) {
  std::vector<std::byte> data(size_t{1} << 20);
  if (first) fmt::print("{:>10} {:>12} {:>12} {:>8}\n", "bytes", "bare us", "rondo us", "ratio");
  for (const size_t bytes : {size_t{8}, size_t{256}, size_t{4096}, size_t{65536}, size_t{262144}}) {
    const size_t turns = bytes <= 4096 ? 2000 : 200;
    std::vector<double> times[2];
    for (size_t round = 0; round < rounds; ++round) {
      times[0].push_back(ping_pong_us(bare, first, data, bytes, turns));
      times[1].push_back(ping_pong_us(transport, first, data, bytes, turns));
    }
    const double a = median(times[0]), b = median(times[1]);
    if (first) fmt::print("{:>10} {:>12.2f} {:>12.2f} {:>8.2f}\n", bytes, a, b, b / a);
  }
  std::vector<double> rates[2];
  for (size_t round = 0; round < rounds; ++round) {
    rates[0].push_back(stream_gb_per_s(bare, first, data));
    rates[1].push_back(stream_gb_per_s(transport, first, data));
  }
  const double a = median(rates[0]), b = median(rates[1]);
  if (first) fmt::print("{:>10} {:>9.2f} GB/s {:>7.2f} GB/s {:>5.2f}\n", "stream", a, b, b / a);
}

}  // namespace

int main(int argc, char** argv) {
  size_t rounds = 7;
  for (int i = 1; i + 1 < argc; i += 2) {
    const std::string_view value = argv[i + 1];
    if (std::string_view(argv[i]) != "--rounds" ||
        std::from_chars(value.data(), value.data() + value.size(), rounds).ec != std::errc() || rounds == 0)
      die("usage: micro_tcp [--rounds N]");
  }
  std::vector<std::unique_ptr<Transport>> ranks;
  std::vector<Peer> peers;
  for (Rank rank = 0; rank < 2; ++rank) {
    auto made = make_tcp({.identity = {.job = 1, .rank = rank, .world = 2}});
    if (!made.ok()) die(made.status().text());
    ranks.push_back(std::move(*made));
    peers.push_back({rank, ranks.back()->address()});
  }
  Sockets bare = bare_sockets();
  const pid_t child = fork();
  if (child < 0) die("no second process");
  const Rank me = child == 0 ? 1 : 0;
  const Status connected = ranks[me]->connect({&peers[1 - me], 1}, Deadline::after_ms(kPatienceMs));
  if (!connected.ok()) die(connected.text());
  BareLink bare_link(bare.ends[me].get());
  TransportLink link(*ranks[me], 1 - me);
  measure(bare_link, link, me == 0, rounds);
  ranks[me].reset();
  if (child == 0) _exit(0);
  int status = 0;
  waitpid(child, &status, 0);
  return status == 0 ? 0 : 1;
}
