#include "transport/handshake.h"

#include <poll.h>
#include <sys/socket.h>

#include <catch2/catch.hpp>

#include <random>

#include "transport/address.h"
#include "transport/rendezvous_wire.h"

using namespace rondo;
using Catch::Matchers::Contains;

namespace {

struct Ends {
  UniqueFd left, right;
};

Ends pair_of() {
  int fds[2];
  REQUIRE(socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0, fds) == 0);
  return {UniqueFd(fds[0]), UniqueFd(fds[1])};
}

HandshakeOptions options_of(Rank rank, uint8_t key = 1) {
  HandshakeOptions options;
  options.identity = {.job = 5, .epoch = 2, .rank = rank, .world = 2, .keyed = true};
  options.identity.key.fill(key);
  options.purpose = "test";
  return options;
}

void drive(Handshake& left, Handshake& right) {
  for (int i = 0; i < 10; ++i) {
    left.advance();
    if (right.advance() == Handshake::State::asking) right.welcome();
  }
}

Hello sample() {
  Hello hello;
  hello.machine = 0x108;
  hello.keyed = true;
  hello.purpose = {'t', 'c', 'p'};
  hello.job = 0x0123456789abcdef;
  hello.epoch = 3;
  hello.rank = 4;
  hello.world = 5;
  hello.stream = 6;
  hello.nonce.fill(0xa5);
  return hello;
}

// Exactly as long as the text, so that a sanitizer sees a read beyond its end.
std::vector<uint8_t> exact(std::string_view text) { return {text.begin(), text.end()}; }

std::string mutated(std::string bytes, std::mt19937& random) {
  for (uint32_t change = random() % 4; change > 0 && !bytes.empty(); --change)
    bytes[random() % bytes.size()] = static_cast<char>(random());
  if (random() % 3 == 0) bytes.resize(random() % (bytes.size() + 1));
  if (random() % 5 == 0) bytes += std::string(random() % 9, '\xff');
  return bytes;
}

}  // namespace

TEST_CASE("handshake: both ends learn who the other is and share a session key") {
  Ends ends = pair_of();
  Handshake dialer(std::move(ends.left), Role::dialer, options_of(1));
  Handshake acceptor(std::move(ends.right), Role::acceptor, options_of(0));
  drive(dialer, acceptor);
  REQUIRE(dialer.state() == Handshake::State::done);
  REQUIRE(acceptor.state() == Handshake::State::done);
  CHECK(dialer.peer().rank == 0);
  CHECK(acceptor.peer().rank == 1);
  CHECK(dialer.session_key() == acceptor.session_key());
  CHECK(dialer.session_key() != options_of(0).identity.key);
}

TEST_CASE("handshake: it needs nothing but single bytes at a time") {
  Ends a = pair_of(), b = pair_of();
  Handshake dialer(std::move(a.left), Role::dialer, options_of(1));
  Handshake acceptor(std::move(b.left), Role::acceptor, options_of(0));
  const auto carry = [](int from, int to) {
    char byte;
    if (recv(from, &byte, 1, 0) == 1) REQUIRE(send(to, &byte, 1, 0) == 1);
  };
  for (int i = 0; i < 600; ++i) {
    dialer.advance();
    carry(a.right.get(), b.right.get());
    if (acceptor.advance() == Handshake::State::asking) acceptor.welcome();
    carry(b.right.get(), a.right.get());
  }
  CHECK(dialer.state() == Handshake::State::done);
  CHECK(acceptor.state() == Handshake::State::done);
}

TEST_CASE("handshake: without the key neither end is taken") {
  Ends ends = pair_of();
  Handshake dialer(std::move(ends.left), Role::dialer, options_of(1, 1));
  Handshake acceptor(std::move(ends.right), Role::acceptor, options_of(0, 2));
  drive(dialer, acceptor);
  CHECK(dialer.state() == Handshake::State::failed);
  CHECK(dialer.why().code() == Code::auth);
  CHECK(acceptor.state() == Handshake::State::failed);
  CHECK(acceptor.why().code() == Code::auth);
}

TEST_CASE("handshake: an echo of its own bytes is no peer") {
  Ends ends = pair_of();
  Handshake dialer(std::move(ends.left), Role::dialer, options_of(1));
  for (int i = 0; i < 5; ++i) {
    dialer.advance();
    char buffer[256];
    const ssize_t got = recv(ends.right.get(), buffer, sizeof buffer, 0);
    if (got > 0) (void)!send(ends.right.get(), buffer, static_cast<size_t>(got), MSG_NOSIGNAL);
  }
  CHECK(dialer.state() == Handshake::State::failed);
  CHECK_THAT(dialer.why().text(), Contains("leads back to this rank"));
}

TEST_CASE("handshake: an end that is silent is dropped at its deadline, and a stranger gets no answer") {
  Ends ends = pair_of();
  HandshakeOptions options = options_of(0);
  options.deadline = {1};
  Handshake silent(std::move(ends.left), Role::acceptor, options);
  CHECK(silent.advance() == Handshake::State::failed);
  CHECK(silent.why().code() == Code::timeout);
  Ends web = pair_of();
  REQUIRE(send(web.right.get(), "GET /", 5, 0) == 5);
  Handshake acceptor(std::move(web.left), Role::acceptor, options_of(0));
  CHECK(acceptor.advance() == Handshake::State::failed);
  CHECK_THAT(acceptor.why().text(), Contains("does not speak rondo's handshake"));
  char byte;
  CHECK(recv(web.right.get(), &byte, 1, 0) <= 0);
}

TEST_CASE("hello: what is written is read, and every change is seen or is another hello") {
  const std::string bytes = encode(sample());
  REQUIRE(bytes.size() == kHelloBytes);
  CHECK(parse_hello(bytes_of(bytes)).value() == sample());
  for (size_t cut = 0; cut < bytes.size(); ++cut)
    CHECK(parse_hello(exact(bytes.substr(0, cut))).status().code() == Code::invalid);
  CHECK(!parse_hello(exact(bytes + "x")).ok());
  std::string other = bytes;
  other[8] = 9;
  CHECK(parse_hello(bytes_of(other)).status().code() == Code::mismatch);
}

TEST_CASE("wire: parsers take mutated bytes without harm") {
  const auto seed = GENERATE(7u, 4711u);
  CAPTURE(seed);
  std::mt19937 random(seed);
  const JobKey key{};
  const std::string hello = encode(sample());
  const Entry entry{.instance = 1, .left_ns = 2, .origin = "pid 1 on here", .blob = "blob"};
  const Answer answer{.code = Code::ok, .text = "", .job = 9, .blobs = {"a", "", "ccc"}};
  MeetingFile file;
  file.addresses = {"tcp:127.0.0.1:80", "tcp:[::1]:81", "unix:name"};
  CHECK(parse_entry(encode_entry(entry)).value() == entry);
  CHECK(parse_answer(encode_answer(answer)).value() == answer);
  CHECK(parse_meeting(encode_meeting(file)).value() == file);
  const std::string framed = sign(key, "entry", encode_entry(entry));
  CHECK(open_signed(key, "entry", bytes_of(framed), kEntryMax).value().value() == encode_entry(entry));
  CHECK(open_signed(key, "answer", bytes_of(framed), kEntryMax).status().code() == Code::auth);
  CHECK(open_signed(key, "entry", bytes_of(framed), 3).status().code() == Code::invalid);
  for (int i = 0; i < 20'000; ++i) {
    const auto h = exact(mutated(hello, random));
    if (auto parsed = parse_hello(h); parsed.ok()) REQUIRE(exact(encode(*parsed)) == h);
    const auto e = mutated(encode_entry(entry), random);
    const auto a = mutated(encode_answer(answer), random);
    const auto f = mutated(framed, random);
    const std::vector<uint8_t> e_exact = exact(e), a_exact = exact(a);
    const auto view = [](const std::vector<uint8_t>& v) {
      return std::string_view(reinterpret_cast<const char*>(v.data()), v.size());
    };
    if (auto parsed = parse_entry(view(e_exact)); parsed.ok()) REQUIRE(encode_entry(*parsed) == e);
    if (auto parsed = parse_answer(view(a_exact)); parsed.ok()) REQUIRE(encode_answer(*parsed) == a);
    auto opened = open_signed(key, "entry", exact(f), kEntryMax);
    if (opened.ok() && opened->has_value()) REQUIRE(f.substr(0, framed.size()) == framed);
    if (auto parsed = parse_meeting(mutated(encode_meeting(file), random)); parsed.ok())
      REQUIRE(parsed->addresses.size() <= 16);
  }
}

TEST_CASE("address: texts and sockets agree, and wrong texts are refused") {
  for (const char* text : {"tcp:127.0.0.1:80", "tcp:[::1]:65535", "unix:a name"}) {
    auto address = parse_address(text);
    REQUIRE(address.ok());
    CHECK(format_address(*address) == text);
  }
  for (const char* text : {"", "tcp:", "tcp:1.2.3.4", "tcp:1.2.3.4:", "tcp:1.2.3.4:x", "tcp:1.2.3.4:65536",
                           "tcp:host:1", "tcp:::1:80", "unix:", "udp:1.2.3.4:5", "tcp:1.2.3.4:-1", "tcp:[1.2.3.4:5"}) {
    CAPTURE(text);
    CHECK(parse_address(text).status().code() == Code::invalid);
  }
}
