#include "transport/mesh.h"

#include <fcntl.h>
#include <poll.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/wait.h>

#include <catch2/catch.hpp>

#include <functional>
#include <thread>

#include "transport/address.h"
#include "transport/handshake.h"

using namespace rondo;
using Catch::Matchers::Contains;

namespace {

enum class Net { tcp, unix_sockets };

std::vector<std::unique_ptr<Listener>> listeners(uint32_t world, Net net) {
  std::vector<std::unique_ptr<Listener>> all;
  for (uint32_t rank = 0; rank < world; ++rank) {
    auto made = net == Net::tcp ? Listener::tcp({}) : Listener::unix_abstract();
    REQUIRE(made.status().text() == "");
    all.push_back(std::move(*made));
  }
  return all;
}

std::vector<std::string> addresses_of(const std::vector<std::unique_ptr<Listener>>& all) {
  std::vector<std::string> addresses;
  for (const auto& listener : all) addresses.push_back(listener->address());
  return addresses;
}

MeshOptions options_of(Rank rank, uint32_t world, int64_t ms = 20'000) {
  MeshOptions options;
  options.identity = {.job = 77, .epoch = 0, .rank = rank, .world = world, .keyed = true};
  options.identity.key.fill(9);
  options.purpose = "test";
  options.deadline = Deadline::after_ms(ms);
  return options;
}

using Links = Result<std::vector<MeshLink>>;

std::vector<Links> unset(uint32_t count) {
  std::vector<Links> links;
  for (uint32_t i = 0; i < count; ++i) links.emplace_back(fail(Code::internal, "not called"));
  return links;
}

using Change = std::function<void(Rank, MeshOptions&)>;

std::vector<Links> mesh(const std::vector<std::unique_ptr<Listener>>& all, const Change& change,
                        std::vector<Rank> ranks = {}) {
  const auto world = static_cast<uint32_t>(all.size());
  const std::vector<std::string> addresses = addresses_of(all);
  if (ranks.empty())
    for (Rank rank = 0; rank < world; ++rank) ranks.push_back(rank);
  std::vector<Links> results = unset(world);
  std::vector<std::thread> threads;
  for (const Rank rank : ranks)
    threads.emplace_back([&, rank] {
      MeshOptions options = options_of(rank, world);
      change(rank, options);
      results[rank] = connect_mesh(options, *all[rank], addresses);
    });
  for (std::thread& thread : threads) thread.join();
  return results;
}

void write_all(int fd, std::string_view text) {
  REQUIRE(send(fd, text.data(), text.size(), MSG_NOSIGNAL) == static_cast<ssize_t>(text.size()));
}

// A blocking read of one byte, bounded.
char read_one(int fd) {
  pollfd p{fd, POLLIN, 0};
  REQUIRE(poll(&p, 1, 5000) == 1);
  char c = 0;
  REQUIRE(recv(fd, &c, 1, 0) == 1);
  return c;
}

UniqueFd connect_to(const std::string& address) {
  auto to = parse_address(address);
  REQUIRE(to.ok());
  UniqueFd fd(socket(to->family(), SOCK_STREAM | SOCK_CLOEXEC, 0));
  REQUIRE(connect(fd.get(), to->get(), to->bytes) == 0);
  return fd;
}

}  // namespace

TEST_CASE("mesh: every pair of ranks is connected, stream by stream, in any world") {
  const Net net = GENERATE(Net::tcp, Net::unix_sockets);
  for (uint32_t world = 1; world <= 9; ++world) {
    CAPTURE(world);
    const uint32_t streams = 1 + world % 3;
    auto all = listeners(world, net);
    auto results = mesh(all, [&](Rank, MeshOptions& options) { options.streams = streams; });
    for (Rank rank = 0; rank < world; ++rank) {
      REQUIRE(results[rank].status().text() == "");
      REQUIRE(results[rank]->size() == world - 1);
      for (const MeshLink& link : *results[rank]) {
        REQUIRE(link.sockets.size() == streams);
        for (uint32_t s = 0; s < streams; ++s)
          write_all(link.sockets[s].get(), std::string(1, static_cast<char>(rank * 16 + s)));
      }
    }
    for (Rank rank = 0; rank < world; ++rank)
      for (const MeshLink& link : *results[rank])
        for (uint32_t s = 0; s < streams; ++s)
          REQUIRE(static_cast<uint8_t>(read_one(link.sockets[s].get())) == link.rank * 16 + s);
  }
}

TEST_CASE("mesh: sockets do not block and do not outlive an exec") {
  auto all = listeners(2, Net::tcp);
  auto results = mesh(all, [](Rank, MeshOptions&) {});
  const int fd = results[0]->at(0).sockets[0].get();
  char byte;
  CHECK(recv(fd, &byte, 1, 0) == -1);
  CHECK(errno == EAGAIN);
  CHECK((fcntl(fd, F_GETFD) & FD_CLOEXEC) != 0);
}

TEST_CASE("mesh: only ranks with an address are connected") {
  auto all = listeners(3, Net::tcp);
  std::vector<std::string> addresses = addresses_of(all);
  addresses[1].clear();
  std::vector<std::thread> threads;
  std::vector<Links> results = unset(3);
  for (Rank rank : {0u, 2u})
    threads.emplace_back([&, rank] { results[rank] = connect_mesh(options_of(rank, 3), *all[rank], addresses); });
  for (auto& thread : threads) thread.join();
  for (Rank rank : {0u, 2u}) {
    REQUIRE(results[rank].ok());
    REQUIRE(results[rank]->size() == 1);
    CHECK(results[rank]->at(0).rank == 2 - rank);
  }
}

TEST_CASE("mesh: all missing ranks are named with their addresses") {
  auto all = listeners(5, Net::tcp);
  const std::string address = all[1]->address();
  all[1] = std::make_unique<Listener>(UniqueFd(), address);  // nobody listens there any more
  auto results = mesh(all, [](Rank, MeshOptions& options) { options.deadline = Deadline::after_ms(400); }, {0, 2, 3});
  for (Rank rank : {2u, 3u}) {
    const Status status = results[rank].status();
    CHECK(status.code() == Code::timeout);
    CHECK_THAT(status.text(), Contains("test mesh: rank 1 at " + std::string(bare_address(address)) +
                                       " did not connect within 0.4 s: Connection refused (errno 111)"));
    CHECK_THAT(status.text(), Contains("nor did rank 4 at"));
  }
  CHECK_THAT(results[0].status().text(), Contains("rank 1") && Contains("rank 4"));
}

TEST_CASE("mesh: a rank with another key, job, epoch, purpose or world is refused and the cause is named") {
  struct Case {
    const char* text;
    Code code;
    std::function<void(MeshOptions&)> change;
  };
  const std::vector<Case> cases = {
      {"does not hold this job's key", Code::auth, [](MeshOptions& o) { o.identity.key.fill(8); }},
      {"the other end has a job key, this one has none", Code::auth, [](MeshOptions& o) { o.identity.keyed = false; }},
      {"belongs to job", Code::timeout, [](MeshOptions& o) { o.identity.job = 78; }},
      {"is in epoch 0, not in 4", Code::timeout, [](MeshOptions& o) { o.identity.epoch = 4; }},
      {"connection is for 'test', not for 'shm'", Code::timeout, [](MeshOptions& o) { o.purpose = "shm"; }},
      {"closed the connection", Code::timeout, [](MeshOptions& o) { o.identity.world = 3; }},
  };
  for (const Case& c : cases) {
    CAPTURE(c.text);
    auto all = listeners(2, Net::tcp);
    auto results = mesh(all, [&](Rank rank, MeshOptions& options) {
      options.deadline = Deadline::after_ms(300);
      if (rank == 1) c.change(options);
    });
    CHECK(results[1].status().code() == c.code);
    CHECK_THAT(results[1].status().text(), Contains(c.text));
    CHECK_THAT(results[0].status().text(), Contains("rank 1 at") && Contains("dropped"));
  }
}

TEST_CASE("mesh: strangers are dropped and delay nobody") {
  auto all = listeners(4, Net::tcp);
  std::vector<UniqueFd> strangers;
  Hello hello;
  hello.rank = 3;
  for (const auto& listener : all) {
    for (int i = 0; i < 20; ++i) strangers.push_back(connect_to(listener->address()));  // says nothing
    strangers.push_back(connect_to(listener->address()));
    write_all(strangers.back().get(), "GET / HTTP/1.1\r\nHost: x\r\n\r\n");
    strangers.push_back(connect_to(listener->address()));
    write_all(strangers.back().get(), std::string(100'000, '\xff').substr(0, 4000));
    strangers.push_back(connect_to(listener->address()));
    write_all(strangers.back().get(), encode(hello).substr(0, kHelloBytes / 2));  // half a hello
    strangers.push_back(connect_to(listener->address()));
    std::string another_version = encode(hello);
    another_version[8] = 7;
    write_all(strangers.back().get(), another_version);
    connect_to(listener->address());  // closes at once
  }
  auto results = mesh(all, [](Rank, MeshOptions& options) { options.streams = 2; });
  for (const Links& links : results) CHECK(links.status().text() == "");
}

TEST_CASE("mesh: a peer that listens late is waited for") {
  auto all = listeners(2, Net::tcp);
  const std::vector<std::string> addresses = addresses_of(all);
  auto port = parse_host_port(bare_address(addresses[0]));
  all[0].reset();
  Links high(std::vector<MeshLink>{});
  std::thread dialer([&] { high = connect_mesh(options_of(1, 2), *all[1], addresses); });
  std::this_thread::sleep_for(std::chrono::milliseconds(50));
  auto late = Listener::tcp({.port_first = port->port, .port_last = port->port});
  REQUIRE(late.status().text() == "");
  auto low = connect_mesh(options_of(0, 2), **late, addresses);
  dialer.join();
  CHECK(low.status().text() == "");
  CHECK(high.status().text() == "");
}

TEST_CASE("mesh: 8 ranks fit into 64 file descriptors each, with strangers at every door") {
  constexpr uint32_t kWorld = 8;
  auto all = listeners(kWorld, Net::unix_sockets);
  const std::vector<std::string> addresses = addresses_of(all);
  std::vector<UniqueFd> strangers;
  for (int i = 0; i < 60; ++i) strangers.push_back(connect_to(addresses[0]));
  std::vector<pid_t> children;
  for (Rank rank = 0; rank < kWorld; ++rank) {
    const pid_t child = fork();
    REQUIRE(child >= 0);
    if (child == 0) {
      for (int fd = 3; fd < 256; ++fd)
        if (fd != all[rank]->fd()) close(fd);
      const rlimit limit{64, 64};
      setrlimit(RLIMIT_NOFILE, &limit);
      MeshOptions options = options_of(rank, kWorld);
      options.streams = 4;
      auto links = connect_mesh(options, *all[rank], addresses);
      _exit(links.ok() ? 0 : 1);
    }
    children.push_back(child);
  }
  for (const pid_t child : children) {
    int status = 0;
    REQUIRE(waitpid(child, &status, 0) == child);
    CHECK((WIFEXITED(status) && WEXITSTATUS(status) == 0));
  }
}

TEST_CASE("mesh: running out of file descriptors says which limit to raise") {
  const pid_t child = fork();
  REQUIRE(child >= 0);
  if (child == 0) {
    auto listener = Listener::tcp({});
    const std::vector<std::string> addresses = {"tcp:127.0.0.1:1", (*listener)->address()};
    const rlimit limit{static_cast<rlim_t>((*listener)->fd()) + 1, 64};
    setrlimit(RLIMIT_NOFILE, &limit);
    auto links = connect_mesh(options_of(1, 2, 200), **listener, addresses);
    _exit(links.status().text().find("ulimit -n") != std::string::npos ? 0 : 1);
  }
  int status = 0;
  REQUIRE(waitpid(child, &status, 0) == child);
  CHECK((WIFEXITED(status) && WEXITSTATUS(status) == 0));
}

TEST_CASE("mesh: senseless options are refused") {
  auto all = listeners(1, Net::tcp);
  const std::vector<std::string> addresses = {"", ""};
  MeshOptions options = options_of(0, 1);
  CHECK(connect_mesh(options, *all[0], addresses).status().code() == Code::invalid);
  options.streams = 0;
  CHECK(connect_mesh(options, *all[0], {}).status().code() == Code::invalid);
  options.streams = 1;
  options.purpose = "a purpose that is too long";
  CHECK(connect_mesh(options, *all[0], {}).status().code() == Code::invalid);
}

TEST_CASE("listener: a port range is searched, and an exhausted one is named") {
  auto first = Listener::tcp({});
  REQUIRE(first.ok());
  const uint16_t port = parse_host_port(bare_address((*first)->address()))->port;
  auto taken = Listener::tcp({.port_first = port, .port_last = port});
  REQUIRE(!taken.ok());
  CHECK(taken.status().code() == Code::system);
  CHECK_THAT(taken.status().text(), Contains(std::to_string(port)) && Contains("errno 98"));
  auto range = Listener::tcp({.port_first = port, .port_last = static_cast<uint16_t>(port + 20)});
  CHECK(range.ok());
  auto six = Listener::tcp({.host = "::1"});
  if (six.ok()) CHECK_THAT((*six)->address(), Catch::StartsWith("tcp:[::1]:"));
  CHECK(Listener::tcp({.host = "no.such.host"}).status().code() == Code::invalid);
}

TEST_CASE("listener: an abstract name is taken once, and only a listening socket is adopted") {
  const std::string name = "rondo-test-" + std::to_string(getpid());
  auto first = Listener::unix_named(name);
  REQUIRE(first.ok());
  CHECK((*first)->address() == "unix:" + name);
  CHECK_THAT(Listener::unix_named(name).status().text(), Contains("errno 98"));
  CHECK(Listener::unix_named(std::string(200, 'x')).status().code() == Code::invalid);
  auto adopted = Listener::adopt(UniqueFd(dup((*first)->fd())));
  REQUIRE(adopted.ok());
  CHECK((*adopted)->address() == "unix:" + name);
  CHECK(!Listener::adopt(UniqueFd(socket(AF_INET, SOCK_STREAM, 0))).ok());
  CHECK(!Listener::adopt(UniqueFd(dup(0))).ok());
  CHECK(!Listener::adopt(UniqueFd(-1)).ok());
}
