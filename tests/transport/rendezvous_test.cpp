#include "transport/rendezvous.h"

#include <fcntl.h>
#include <poll.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/wait.h>

#include <catch2/catch.hpp>

#include <atomic>
#include <functional>
#include <random>
#include <thread>

#include "transport/address.h"
#include "transport/handshake.h"
#include "transport/mesh.h"
#include "transport/rendezvous_wire.h"

using namespace rondo;
using Catch::Matchers::Contains;

namespace {

int64_t fresh_number() {
  static std::atomic<int64_t> next{0};
  return next++;
}

uint16_t free_port() {
  auto listener = Listener::tcp({});
  REQUIRE(listener.ok());
  return parse_host_port(bare_address((*listener)->address()))->port;
}

std::string fresh_path() { return fmt::format("{}/rondo-meeting-{}-{}", P_tmpdir, getpid(), fresh_number()); }

std::string fresh(const std::string& scheme) {
  if (scheme == "tcp") return fmt::format("tcp://127.0.0.1:{}", free_port());
  if (scheme == "tcp6") return fmt::format("tcp://[::1]:{}", free_port());
  if (scheme == "name") return fmt::format("tcp://localhost:{}", free_port());
  if (scheme == "file") return "file://" + fresh_path();
  return fmt::format("{}://test {} {}", scheme, getpid(), fresh_number());
}

JoinOptions options_of(const std::string& rendezvous, Rank rank, uint32_t world, int64_t ms = 20'000) {
  JoinOptions options;
  options.rendezvous = rendezvous;
  options.rank = rank;
  options.world = world;
  options.blob = "blob of " + std::to_string(rank);
  options.deadline = Deadline::after_ms(ms);
  return options;
}

using Rosters = std::vector<Result<Roster>>;

Rosters join_all(const std::vector<JoinOptions>& all) {
  Rosters results;
  for (size_t i = 0; i < all.size(); ++i) results.emplace_back(fail(Code::internal, "not called"));
  std::vector<std::thread> threads;
  for (size_t i = 0; i < all.size(); ++i)
    threads.emplace_back([&, i] { results[i] = join(all[i], Logger({.level = LogLevel::error})); });
  for (std::thread& thread : threads) thread.join();
  return results;
}

std::vector<JoinOptions> world_of(const std::string& rendezvous, uint32_t world, int64_t ms = 20'000) {
  std::vector<JoinOptions> all;
  for (Rank rank = 0; rank < world; ++rank) all.push_back(options_of(rendezvous, rank, world, ms));
  return all;
}

void check_good(const Rosters& results, uint32_t world) {
  for (Rank rank = 0; rank < world; ++rank) {
    REQUIRE(results[rank].status().text() == "");
    const Roster& roster = results[rank].value();
    CHECK(roster.identity.rank == rank);
    CHECK(roster.identity.world == world);
    CHECK(roster.identity.job != 0);
    CHECK(roster.identity.job == results[0].value().identity.job);
    CHECK(roster.identity.keyed == results[0].value().identity.keyed);
    CHECK(roster.identity.key == results[0].value().identity.key);
    REQUIRE(roster.blobs.size() == world);
    for (Rank r = 0; r < world; ++r) CHECK(roster.blobs[r] == "blob of " + std::to_string(r));
  }
}

UniqueFd connect_to(const std::string& address) {
  auto to = parse_address(address);
  REQUIRE(to.ok());
  UniqueFd fd(socket(to->family(), SOCK_STREAM | SOCK_CLOEXEC, 0));
  for (int i = 0; i < 1000; ++i) {
    if (connect(fd.get(), to->get(), to->bytes) == 0) return fd;
    poll(nullptr, 0, 2);
    fd.reset(socket(to->family(), SOCK_STREAM | SOCK_CLOEXEC, 0));
  }
  FAIL("nobody listens at " << address);
  return fd;
}

}  // namespace

TEST_CASE("rendezvous: all ranks leave with all blobs and one job, in any world") {
  const std::string scheme = GENERATE("tcp", "tcp6", "name", "file", "inproc", "unix");
  if (scheme == "tcp6" && !Listener::tcp({.host = "::1"}).ok()) return;  // no IPv6 here
  CAPTURE(scheme);
  for (uint32_t world = 1; world <= 9; world += (scheme == "tcp" ? 1 : 4)) {
    CAPTURE(world);
    check_good(join_all(world_of(fresh(scheme), world)), world);
  }
}

TEST_CASE("rendezvous: jobs that follow each other at one address get numbers of their own") {
  const std::string rendezvous = fresh("inproc");
  uint64_t last = 0;
  for (int i = 0; i < 5; ++i) {
    auto results = join_all(world_of(rendezvous, 3));
    check_good(results, 3);
    CHECK(results[0].value().identity.job != last);
    last = results[0].value().identity.job;
  }
}

TEST_CASE("rendezvous: a listening socket of the launcher is used") {
  auto listener = Listener::tcp({});
  REQUIRE(listener.ok());
  auto all = world_of("tcp://" + std::string(bare_address((*listener)->address())), 4);
  all[0].listen_fd = (*listener)->take_fd().release();
  check_good(join_all(all), 4);
}

TEST_CASE("rendezvous: a job key is proved by all, and big blobs travel") {
  auto all = world_of(fresh("tcp"), 3);
  for (auto& options : all) {
    options.keyed = true;
    options.key.fill(5);
    options.blob = std::string(kBlobMax, static_cast<char>('a' + options.rank));
  }
  auto results = join_all(all);
  for (auto& result : results) {
    REQUIRE(result.status().text() == "");
    CHECK(result->identity.keyed);
    CHECK(result->identity.key == all[0].key);
    for (Rank r = 0; r < 3; ++r) CHECK(result->blobs[r] == all[r].blob);
  }
  all[0].blob.push_back('x');
  CHECK(join(all[0], {}).status().code() == Code::invalid);
}

TEST_CASE("rendezvous: missing ranks are named on all that came, before their deadline") {
  auto all = world_of(fresh("tcp"), 5, 1000);
  auto results = join_all({all[0], all[1], all[3]});
  for (auto& result : results) {
    CHECK(result.status().code() == Code::timeout);
    CHECK_THAT(result.status().text(), Contains("ranks 2, 4 of 5 did not come within"));
    CHECK(result.status().text() == results[0].status().text());
  }
}

TEST_CASE("rendezvous: without rank 0 the address and the last cause are named") {
  const std::string rendezvous = fresh("tcp");
  auto results = join_all({options_of(rendezvous, 1, 2, 300)});
  CHECK(results[0].status().code() == Code::timeout);
  CHECK_THAT(results[0].status().text(), Contains("rank 1 did not reach rank 0 within 0.3 s at " +
                                                  rendezvous.substr(6) + ": Connection refused (errno 111)"));
  auto file = join_all({options_of("file:///no/such/folder/file", 1, 2, 200)});
  CHECK_THAT(file[0].status().text(), Contains("open /no/such/folder/file: No such file or directory (errno 2)"));
  auto host = join_all({options_of("file:///no/such/folder/file", 0, 2, 200)});
  CHECK_THAT(host[0].status().text(), Contains("errno 2"));
}

TEST_CASE("rendezvous: a rank that came twice is named on all") {
  const std::string rendezvous = fresh("tcp");
  auto all = world_of(rendezvous, 4);
  all[3] = options_of(rendezvous, 1, 4);
  auto results = join_all(all);
  for (auto& result : results) {
    CHECK(result.status().code() == Code::invalid);
    CHECK_THAT(result.status().text(), Contains("rank 1 came twice") && Contains(fmt::format("pid {}", getpid())));
  }
}

TEST_CASE("rendezvous: two ranks 0 are told of each other") {
  const std::string scheme = GENERATE("tcp", "unix");
  const std::string rendezvous = fresh(scheme);
  auto all = world_of(rendezvous, 3);
  all[2] = options_of(rendezvous, 0, 3);
  for (auto& result : join_all(all)) CHECK_THAT(result.status().text(), Contains("rank 0 came twice"));
}

TEST_CASE("rendezvous: a rank out of range is named on all") {
  const std::string rendezvous = fresh("tcp");
  auto all = world_of(rendezvous, 3);
  all[2] = options_of(rendezvous, 7, 3);
  for (auto& result : join_all(all)) {
    CHECK(result.status().code() == Code::invalid);
    CHECK_THAT(result.status().text(), Contains("rank 7") && Contains("out of range"));
  }
}

TEST_CASE("rendezvous: differing worlds and other culprits are named together") {
  const std::string rendezvous = fresh("tcp");
  auto all = world_of(rendezvous, 5);
  all[2].world = 6;
  all[3].world = 4;
  auto results = join_all(all);
  for (auto& result : results) {
    CHECK(result.status().code() == Code::invalid);
    CHECK_THAT(result.status().text(), Contains("the world of rank 2") && Contains("is 6") &&
                                           Contains("the world of rank 3") && Contains("of rank 0"));
  }
}

TEST_CASE("rendezvous: a wrong key is refused soon, and the others are told how many failed") {
  const std::string rendezvous = fresh("tcp");
  auto all = world_of(rendezvous, 3, 1500);
  for (auto& options : all) {
    options.keyed = true;
    options.key.fill(options.rank == 2 ? 1 : 2);
  }
  auto results = join_all(all);
  CHECK(results[2].status().code() == Code::auth);
  CHECK_THAT(results[2].status().text(), Contains("does not hold this job's key"));
  for (Rank rank : {0u, 1u}) {
    CHECK(results[rank].status().code() == Code::timeout);
    CHECK_THAT(results[rank].status().text(),
               Contains("rank 2 of 3 did not come") && Contains("failed authentication"));
  }
  all = world_of(fresh("tcp"), 2, 1500);
  all[0].keyed = true;
  auto half = join_all(all);
  CHECK(half[1].status().code() == Code::auth);
  CHECK_THAT(half[1].status().text(), Contains("the other end has a job key, this one has none"));
}

TEST_CASE("rendezvous: strangers at the door delay nobody") {
  const uint16_t port = free_port();
  const std::string rendezvous = fmt::format("tcp://127.0.0.1:{}", port);
  auto all = world_of(rendezvous, 4);
  Rosters first;
  std::thread early([&] { first = join_all({all[0], all[1]}); });
  std::vector<UniqueFd> strangers;
  const std::string hello = encode(Hello{});
  for (int i = 0; i < 40; ++i) {
    strangers.push_back(connect_to(fmt::format("tcp:127.0.0.1:{}", port)));
    const std::string says[] = {"", "GET / HTTP/1.0\r\n\r\n", std::string(3000, '\x02'), hello.substr(0, 50), hello};
    const std::string& text = says[i % 5];
    if (!text.empty()) (void)!send(strangers.back().get(), text.data(), text.size(), MSG_NOSIGNAL);
  }
  auto second = join_all({all[2], all[3]});
  early.join();
  for (auto* results : {&first, &second})
    for (auto& result : *results) CHECK(result.status().text() == "");
}

TEST_CASE("rendezvous: a rank that dies while others are awaited is named") {
  const std::string rendezvous = fresh("tcp");
  const pid_t child = fork();
  REQUIRE(child >= 0);
  if (child == 0) {
    auto result = join(options_of(rendezvous, 1, 3), {});
    _exit(0);
  }
  Rosters host;
  auto all = world_of(rendezvous, 3, 1200);
  std::thread zero([&] { host = join_all({all[0]}); });
  std::this_thread::sleep_for(std::chrono::milliseconds(300));
  kill(child, SIGKILL);
  waitpid(child, nullptr, 0);
  zero.join();
  CHECK_THAT(host[0].status().text(), Contains("ranks 1, 2 of 3") && Contains(fmt::format("rank 1 (pid {}", child)) &&
                                          Contains("came and left"));
}

TEST_CASE("rendezvous: a foreign program at rank 0's address is named on rank 0 and on the others") {
  auto foreign = Listener::tcp({});
  REQUIRE(foreign.ok());
  const std::string rendezvous = "tcp://" + std::string(bare_address((*foreign)->address()));
  auto results = join_all(world_of(rendezvous, 2, 600));
  CHECK_THAT(results[0].status().text(), Contains("Address already in use (errno 98)"));
  CHECK_THAT(results[1].status().text(), Contains("accepted the connection but did not answer"));
}

TEST_CASE("rendezvous: rank 0 on the wrong host says so") {
  auto result = join(options_of("tcp://192.0.2.1:4000", 0, 2, 500), {});
  CHECK(result.status().code() == Code::system);
  CHECK_THAT(result.status().text(), Contains("rank 0 does not run on 192.0.2.1"));
}

TEST_CASE("rendezvous file: it is private, gone after the join, and a stale one misleads nobody") {
  const std::string path = fresh_path();
  MeetingFile stale;
  stale.secret.fill(3);
  stale.addresses = {"unix:rondo-nobody-is-there", fmt::format("tcp:127.0.0.1:{}", free_port())};
  const UniqueFd fd(open(path.c_str(), O_CREAT | O_WRONLY | O_EXCL, 0600));
  const std::string text = encode_meeting(stale);
  REQUIRE(write(fd.get(), text.data(), text.size()) == static_cast<ssize_t>(text.size()));
  auto all = world_of("file://" + path, 3);
  Rosters others;
  std::thread early([&] { others = join_all({all[1], all[2]}); });
  std::this_thread::sleep_for(std::chrono::milliseconds(50));  // they read the stale file
  auto host = join_all({all[0]});
  early.join();
  CHECK(host[0].status().text() == "");
  for (auto& result : others) CHECK(result.status().text() == "");
  CHECK(host[0]->identity.keyed);  // the file's secret is a key that all members share
  CHECK(access(path.c_str(), F_OK) != 0);
}

TEST_CASE("rendezvous file: a file that others can read is not trusted") {
  const std::string path = fresh_path();
  MeetingFile file;
  file.addresses = {"unix:rondo-trap"};
  const UniqueFd fd(open(path.c_str(), O_CREAT | O_WRONLY | O_EXCL, 0600));
  fchmod(fd.get(), 0644);
  const std::string text = encode_meeting(file);
  REQUIRE(write(fd.get(), text.data(), text.size()) == static_cast<ssize_t>(text.size()));
  auto results = join_all({options_of("file://" + path, 1, 2, 150)});
  CHECK_THAT(results[0].status().text(), Contains("with mode 644"));
  unlink(path.c_str());
}

TEST_CASE("rendezvous: ports above a base are probed past programs and past other jobs") {
  const uint16_t base = [] {
    for (int i = 0; i < 100; ++i) {
      const uint16_t port = free_port();
      if (port < 65000) return port;
    }
    return uint16_t{40000};
  }();
  auto silent =
      Listener::tcp({.port_first = static_cast<uint16_t>(base + 1), .port_last = static_cast<uint16_t>(base + 1)});
  const std::string a = fmt::format("probe://127.0.0.1:{}/run-a", base),
                    b = fmt::format("probe://127.0.0.1:{}/run-b", base);
  Rosters of_a, of_b;
  std::thread first([&] { of_a = join_all(world_of(a, 3)); });
  of_b = join_all(world_of(b, 3));
  first.join();
  check_good(of_a, 3);
  check_good(of_b, 3);
  CHECK(of_a[0]->identity.job != of_b[0]->identity.job);
}

TEST_CASE("rendezvous: senseless strings are refused with the reason") {
  for (const char* text : {"", "tcp://", "tcp://host", "tcp://host:0", "tcp://host:99999", "tcp://host:1/x", "file://a",
                           "ftp://host:1", "tcp://::1:4000", "probe://h:65530/x", "inproc://", "tcp://:80"}) {
    CAPTURE(text);
    for (Rank rank : {0u, 1u}) {
      const Status status = join(options_of(text, rank, 2, 100), {}).status();
      CHECK(status.code() == Code::invalid);
      CHECK_THAT(status.text(), Contains(fmt::format("rendezvous '{}'", text)));
    }
  }
  CHECK(join(options_of("inproc://x", 0, 0), {}).status().code() == Code::invalid);
}

TEST_CASE("rendezvous: 8 ranks meet with 64 file descriptors each") {
  const std::string rendezvous = fresh("file");
  std::vector<pid_t> children;
  for (Rank rank = 0; rank < 8; ++rank) {
    const pid_t child = fork();
    REQUIRE(child >= 0);
    if (child == 0) {
      const rlimit limit{64, 64};
      setrlimit(RLIMIT_NOFILE, &limit);
      _exit(join(options_of(rendezvous, rank, 8), Logger()).ok() ? 0 : 1);
    }
    children.push_back(child);
  }
  for (const pid_t child : children) {
    int status = 0;
    REQUIRE(waitpid(child, &status, 0) == child);
    CHECK((WIFEXITED(status) && WEXITSTATUS(status) == 0));
  }
}
