#include "transports/tcp/tcp.h"

#include <signal.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <string>
#include <thread>
#include <vector>

#include <catch2/catch.hpp>

#include "conformance.h"
#include "transport/mesh.h"

using namespace rondo;

namespace {

conformance::Factory factory(const TcpOptions& options) {
  return [options](uint32_t ranks) {
    conformance::World world;
    for (Rank rank = 0; rank < ranks; ++rank) {
      TcpOptions own = options;
      own.identity = {.job = 77, .epoch = 1, .rank = rank, .world = ranks};
      auto made = make_tcp(own);
      INFO(made.status().text());
      REQUIRE(made.ok());
      world.transports.push_back(std::move(*made));
    }
    connect_all(world);
    return world;
  };
}

using conformance::first_wrong;
using conformance::payload;

// Rank 0 is a transport; rank 1 is a socket in the hands of the test, which has passed the handshake.
struct RawPeer {
  std::unique_ptr<Transport> transport;
  UniqueFd socket;
  std::vector<Completion> completions;

  explicit RawPeer(TcpOptions options = {}) {
    options.identity = {.job = 5, .rank = 0, .world = 2};
    auto made = make_tcp(options);
    REQUIRE(made.ok());
    transport = std::move(*made);
    auto listener = Listener::tcp({});
    REQUIRE(listener.ok());
    const std::vector<std::string> addresses = {transport->address(), ""};
    std::thread other([&] {
      MeshOptions mesh{.purpose = "tcp", .deadline = Deadline::after_ms(conformance::kPatienceMs)};
      mesh.identity = {.job = 5, .rank = 1, .world = 2};
      auto links = connect_mesh(mesh, **listener, addresses);
      if (links.ok()) socket = std::move((*links)[0].sockets[0]);
    });
    const Peer peer{1, (*listener)->address()};
    const Status connected = transport->connect({&peer, 1}, Deadline::after_ms(conformance::kPatienceMs));
    other.join();
    INFO(connected.text());
    REQUIRE(connected.ok());
    REQUIRE(socket);
  }
  Endpoint& link() { return *transport->endpoint(1); }
  void write(const void* data, size_t bytes) {
    REQUIRE(::send(socket.get(), data, bytes, MSG_NOSIGNAL) == static_cast<ssize_t>(bytes));
  }
  void write(const Frame& frame) { write(&frame, sizeof frame); }
  template <class Done>
  void until(Done done) {
    const Deadline deadline = Deadline::after_ms(conformance::kPatienceMs);
    while (!done()) {
      if (deadline.passed()) FAIL("no end of waiting");
      transport->progress(completions);
    }
  }
  std::string loss() {
    until([&] { return !link().status().ok(); });
    CHECK(link().status().code() == Code::peer);
    return link().status().text();
  }
};

size_t count(const std::vector<Sent>& answers, Sent wanted) {
  return static_cast<size_t>(std::count(answers.begin(), answers.end(), wanted));
}

}  // namespace

TEST_CASE("conformance: tcp that may hold a single message") {
  conformance::run(factory({.message_bytes = 100'000, .staging_bytes = 1}));
}

TEST_CASE("tcp: a bad frame ends the link and is quoted") {
  const struct {
    Frame frame;
    const char* text;
  } cases[] = {{{.version = 9}, "version 9, kind 1, 0 bytes of at most 262144"},
               {{.kind = static_cast<FrameKind>(77)}, "version 1, kind 77, 0 bytes of at most 262144"},
               {{.bytes = uint64_t{1} << 40}, "version 1, kind 1, 1099511627776 bytes of at most 262144"},
               {{.bytes = 262145}, "262145 bytes of at most 262144"}};
  for (const auto& one : cases) {
    RawPeer peer;
    const Frame good{.bytes = 4};
    peer.write(good);
    peer.write("good", 4);
    peer.write(one.frame);
    Message message;
    peer.until([&] { return peer.link().poll(key_of(good), &message); });
    CHECK(std::memcmp(message.data, "good", 4) == 0);
    peer.link().release(message);
    const std::string loss = peer.loss();
    CHECK_THAT(loss, Catch::Matchers::Contains("bad frame from rank 1 at 127.0.0.1:"));
    CHECK_THAT(loss, Catch::Matchers::Contains(one.text));
    char byte;
    CHECK(recv(peer.socket.get(), &byte, 1, MSG_DONTWAIT) <= 0);  // closed from our side
  }
}

TEST_CASE("tcp: bytes that are no frames at all end the link, whatever they are") {
  std::mt19937 random(3);
  for (int i = 0; i < 20; ++i) {
    RawPeer peer;
    std::vector<uint8_t> garbage(1 + random() % 3000);
    for (uint8_t& byte : garbage) byte = static_cast<uint8_t>(random());
    garbage[0] = 200;
    peer.write(garbage.data(), garbage.size());
    peer.socket.reset();
    peer.loss();
  }
}

TEST_CASE("tcp: a connection that closes inside a message says how much was missing") {
  RawPeer peer;
  peer.write(Frame{.bytes = 100});
  peer.write(payload(1, 40).data(), 40);
  peer.socket.reset();
  CHECK_THAT(peer.loss(), Catch::Matchers::Contains("closed the connection after 40 of 100 bytes of a message"));
}

TEST_CASE("tcp: a connection that closes inside a frame says so") {
  RawPeer peer;
  const Frame frame{.bytes = 100};
  peer.write(&frame, 17);
  peer.socket.reset();
  CHECK_THAT(peer.loss(), Catch::Matchers::Contains("closed the connection in the middle of a frame"));
}

TEST_CASE("tcp: a half-closed connection delivers what came and then counts as closed") {
  RawPeer peer;
  const Frame frame{.bytes = 5};
  peer.write(frame);
  peer.write("hello", 5);
  REQUIRE(shutdown(peer.socket.get(), SHUT_WR) == 0);
  Message message;
  peer.until([&] { return peer.link().poll(key_of(frame), &message); });
  CHECK(std::memcmp(message.data, "hello", 5) == 0);
  peer.link().release(message);
  CHECK_THAT(peer.loss(), Catch::Matchers::Contains("tcp: rank 1 at 127.0.0.1:"));
  CHECK_THAT(peer.link().status().text(), Catch::Matchers::EndsWith(" closed the connection"));
}

TEST_CASE("tcp: frames that trickle in byte by byte are put together") {
  RawPeer peer;
  const std::vector<std::byte> data = payload(4, 300);
  Frame frame{.bytes = data.size(), .fingerprint = 12};
  std::vector<std::byte> wire(sizeof frame + data.size());
  std::memcpy(wire.data(), &frame, sizeof frame);
  std::copy(data.begin(), data.end(), wire.begin() + sizeof frame);
  Message message;
  for (const std::byte& byte : wire) {
    CHECK_FALSE(peer.link().poll(key_of(frame), &message));
    peer.write(&byte, 1);
    peer.transport->progress(peer.completions);
  }
  peer.until([&] { return peer.link().poll(key_of(frame), &message); });
  CHECK(message.frame == frame);
  CHECK(first_wrong(message.data, 4, data.size()) == data.size());
  peer.link().release(message);
}

TEST_CASE("tcp: memory that is withdrawn while it is being written is left alone from then on") {
  RawPeer peer;
  const std::vector<std::byte> data = payload(6, 100'000);
  std::vector<std::byte> memory(data.size());
  const Frame frame{.bytes = data.size()};
  REQUIRE(peer.link().expose(key_of(frame), memory.data(), memory.size()));
  peer.write(frame);
  peer.write(data.data(), 50'000);
  peer.until([&] { return memory[49'999] == data[49'999]; });
  CHECK_FALSE(peer.link().expose(key_of(frame), memory.data(), memory.size()));
  REQUIRE(peer.link().withdraw(key_of(frame)));
  std::fill(memory.begin(), memory.end(), std::byte{0xaa});
  peer.write(data.data() + 50'000, 50'000);
  Message message;
  peer.until([&] { return peer.link().poll(key_of(frame), &message); });
  CHECK_FALSE(message.placed);
  CHECK(first_wrong(message.data, 6, data.size()) == data.size());
  CHECK(std::all_of(memory.begin(), memory.end(), [](std::byte b) { return b == std::byte{0xaa}; }));
  peer.link().release(message);
}

TEST_CASE("tcp: a message larger than every socket buffer arrives in exposed memory") {
  conformance::Rig rig(factory({.message_bytes = size_t{64} << 20}), 2);
  const size_t bytes = (size_t{64} << 20) - 3;
  const std::vector<std::byte> data = payload(2, bytes);
  std::vector<std::byte> memory(bytes);
  const Frame frame{.bytes = bytes};
  REQUIRE(rig.link(1, 0).expose(key_of(frame), memory.data(), bytes));
  REQUIRE(rig.send(0, 1, frame, data.data(), 1) == Sent::pending);
  const Message message = rig.receive(1, 0, key_of(frame));
  CHECK(message.placed);
  CHECK(message.data == memory.data());
  CHECK(first_wrong(memory.data(), 2, bytes) == bytes);
  rig.link(1, 0).release(message);
  rig.complete(0, {1});
}

TEST_CASE("tcp: a reader that asks for something else is not flooded, and gets what it asks for") {
  conformance::Rig rig(factory({.queue_messages = 100'000}), 2);
  const std::vector<std::byte> data = payload(7, 256 * 1024);
  constexpr size_t kMessages = 400;  // 100 MiB: more than the budget and both socket buffers hold
  std::vector<Token> pending;
  for (Token token = 0; token < kMessages; ++token)
    if (rig.send(0, 1, {.bytes = data.size(), .fingerprint = token}, data.data(), token) == Sent::pending)
      pending.push_back(token);
  const Frame last{.lane = 1, .bytes = 3};
  rig.send(0, 1, last, data.data());
  for (int i = 0; i < 300; ++i) rig.crank();
  size_t completed = 0;
  for (const Token token : pending) completed += rig.completions(0, token) > 0;
  CHECK(pending.size() - completed > kMessages / 2);  // the rest waits at the sender
  rig.expect(1, 0, last, 7);
  for (Token token = 0; token < kMessages; ++token) {
    const Frame frame{.bytes = data.size(), .fingerprint = token};
    const Message message = rig.receive(1, 0, key_of(frame));
    REQUIRE(message.frame == frame);
    if (token % 50 == 0) CHECK(first_wrong(message.data, 7, data.size()) == data.size());
    rig.link(1, 0).release(message);
  }
  rig.complete(0, pending);
}

TEST_CASE("tcp: a peer that does not read for longer than the liveness limit is not lost") {
  RawPeer peer({.liveness_ms = 1});  // shorter than any answer: only what was answered counts
  const std::vector<std::byte> data = payload(1, 256 * 1024);
  std::vector<Sent> answers;
  while (count(answers, Sent::pending) < 20)
    answers.push_back(peer.link().send({.bytes = data.size()}, data.data(), answers.size()));
  const Deadline deadline = Deadline::after_ms(2600);  // two looks at what has been acknowledged, and a bit
  while (!deadline.passed()) {
    while (!peer.transport->arm()) peer.transport->progress(peer.completions);
    pollfd entry{.fd = peer.transport->wait_fd(), .events = POLLIN};
    poll(&entry, 1, deadline.poll_ms(1000));
    peer.transport->disarm();
    peer.transport->progress(peer.completions);
    REQUIRE(peer.link().status().ok());
  }
  peer.socket.reset();
  peer.until([&] { return peer.link().send({.bytes = 0}, nullptr, 0) == Sent::failed; });
}

TEST_CASE("tcp: a killed process is lost behind its data, also for who has sends pending to it") {
  std::vector<std::unique_ptr<Transport>> ranks;
  for (Rank rank = 0; rank < 2; ++rank) {
    auto made = make_tcp({.identity = {.job = 6, .rank = rank, .world = 2}});
    REQUIRE(made.ok());
    ranks.push_back(std::move(*made));
  }
  const std::vector<Peer> peers = {{0, ranks[0]->address()}, {1, ranks[1]->address()}};
  std::array<int, 2> ready{};
  REQUIRE(pipe(ready.data()) == 0);
  const pid_t child = fork();
  REQUIRE(child >= 0);
  if (child == 0) {
    const bool connected = ranks[1]->connect({&peers[0], 1}, Deadline::after_ms(conformance::kPatienceMs)).ok();
    const std::vector<std::byte> data = payload(3, 1000);
    if (!connected || ranks[1]->endpoint(0)->send({.bytes = 1000}, data.data(), 0) != Sent::done) _exit(1);
    if (::write(ready[1], "x", 1) != 1) _exit(1);
    for (;;) pause();
  }
  REQUIRE(ranks[0]->connect({&peers[1], 1}, Deadline::after_ms(conformance::kPatienceMs)).ok());
  Endpoint& link = *ranks[0]->endpoint(1);
  char byte;
  REQUIRE(read(ready[0], &byte, 1) == 1);
  const std::vector<std::byte> data = payload(1, 256 * 1024);
  std::vector<Sent> answers;
  while (count(answers, Sent::pending) < 20)
    answers.push_back(link.send({.bytes = data.size()}, data.data(), answers.size()));
  REQUIRE(kill(child, SIGKILL) == 0);
  REQUIRE(waitpid(child, nullptr, 0) == child);
  std::vector<Completion> completions;
  const Deadline deadline = Deadline::after_ms(conformance::kPatienceMs);
  while (completions.size() < 20 && !deadline.passed()) ranks[0]->progress(completions);
  CHECK(completions.size() == 20);
  Message message;
  REQUIRE(link.poll(key_of(Frame{}), &message));
  CHECK(first_wrong(message.data, 3, 1000) == 1000);
  link.release(message);
  while (link.status().ok() && !deadline.passed()) ranks[0]->progress(completions);
  CHECK_THAT(link.status().text(), Catch::Matchers::EndsWith(" closed the connection"));
  CHECK(completions.size() == 20);
  close(ready[0]);
  close(ready[1]);
}

TEST_CASE("tcp: what was sent right before the end arrives although the other side has unread data in our socket") {
  RawPeer peer;
  peer.write(Frame{.bytes = 4});
  peer.write("late", 4);  // never read by rank 0: closing on top of it would reset the connection
  const std::vector<std::byte> data = payload(8, 1000);
  REQUIRE(peer.link().send({.bytes = 1000}, data.data(), 0) == Sent::done);
  peer.transport.reset();
  std::vector<std::byte> wire;
  std::byte chunk[4096];
  for (ssize_t got; (got = recv(peer.socket.get(), chunk, sizeof chunk, 0)) > 0;)
    wire.insert(wire.end(), chunk, chunk + got);
  REQUIRE(wire.size() == sizeof(Frame) + 1000);
  CHECK(first_wrong(wire.data() + sizeof(Frame), 8, 1000) == 1000);
}

TEST_CASE("tcp: the destructor gives up on a peer that never reads") {
  RawPeer peer({.linger_ms = 100});
  const std::vector<std::byte> data = payload(1, 256 * 1024);
  std::vector<Sent> answers;
  while (count(answers, Sent::pending) < 20)
    answers.push_back(peer.link().send({.bytes = data.size()}, data.data(), answers.size()));
  peer.transport.reset();
}

TEST_CASE("tcp: options that make no sense are refused") {
  CHECK(make_tcp({.streams = 0}).status().code() == Code::invalid);
  CHECK(make_tcp({.streams = 1000}).status().code() == Code::invalid);
  CHECK(make_tcp({.message_bytes = 0}).status().code() == Code::invalid);
  CHECK(make_tcp({.queue_messages = 0}).status().code() == Code::invalid);
  CHECK(make_tcp({.linger_ms = -1}).status().code() == Code::invalid);
  CHECK_FALSE(make_tcp({.host = "no.such.host.invalid"}).ok());
}

TEST_CASE("tcp: a port that is taken is an error that names it") {
  auto first = make_tcp({});
  REQUIRE(first.ok());
  const std::string address = (*first)->address();
  const auto port = static_cast<uint16_t>(std::stoul(address.substr(address.rfind(':') + 1)));
  const auto second = make_tcp({.port_first = port, .port_last = port});
  REQUIRE_FALSE(second.ok());
  CHECK_THAT(second.status().text(), Catch::Matchers::StartsWith("tcp: "));
  CHECK_THAT(second.status().text(), Catch::Matchers::Contains(std::to_string(port)));
  CHECK_THAT(second.status().text(), Catch::Matchers::Contains("Address already in use"));
}

TEST_CASE("tcp: addresses of other kinds are not reached, and why is said") {
  auto made = make_tcp({});
  REQUIRE(made.ok());
  CHECK((*made)->reaches("tcp:127.0.0.1:80").ok());
  CHECK((*made)->reaches("tcp:[::1]:80").code() == Code::unsupported);
  CHECK((*made)->reaches("unix:name").code() == Code::unsupported);
}

TEST_CASE("tcp: a missing rank is named when the deadline has passed") {
  auto made = make_tcp({.identity = {.rank = 0, .world = 3}});
  REQUIRE(made.ok());
  const std::vector<Peer> peers = {{1, "tcp:127.0.0.1:1"}, {2, "tcp:127.0.0.1:1"}};
  const Status status = (*made)->connect(peers, Deadline::after_ms(50));
  CHECK(status.code() == Code::timeout);
  CHECK_THAT(status.text(), Catch::Matchers::Contains("1") && Catch::Matchers::Contains("2"));
}

TEST_CASE("conformance: tcp") { conformance::run(factory({})); }

TEST_CASE("conformance: tcp with three sockets per peer and small limits") {
  conformance::run(factory(
      {.streams = 3, .message_bytes = 10'000, .inject_bytes = 100, .queue_messages = 4, .staging_bytes = 20'000}));
}
