// Ranks as forked processes: death, farewell, few descriptors, nothing left behind.
#include <dirent.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <cstring>
#include <functional>
#include <set>
#include <string>
#include <vector>

#include <catch2/catch.hpp>

#include "transport/contract.h"
#include "transports/shm/shm.h"

using namespace rondo;

namespace {

constexpr int64_t kPatienceMs = 30'000;
constexpr uint32_t kMaxRanks = 8;

// Where the ranks of one job tell each other their addresses.
struct Board {
  struct Row {
    std::atomic<uint32_t> bytes;
    char address[500];
  } rows[kMaxRanks];
  std::atomic<uint64_t> counter;
};

class Job {
 public:
  explicit Job(uint32_t ranks) : ranks_(ranks) {
    void* memory = mmap(nullptr, sizeof(Board), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    REQUIRE(memory != MAP_FAILED);
    board_ = static_cast<Board*>(memory);
  }
  ~Job() {
    for (const pid_t child : children_) kill(child, SIGKILL);
    for (const pid_t child : children_) waitpid(child, nullptr, 0);
    munmap(board_, sizeof(Board));
  }

  Board& board() { return *board_; }
  // Forks a rank that ends with what `body` returns; 0 is success.
  pid_t start(const std::function<int()>& body) {
    const pid_t child = fork();
    REQUIRE(child >= 0);
    if (child == 0) _exit(body());
    children_.insert(child);
    return child;
  }
  int wait(pid_t child) {
    int status = 0;
    waitpid(child, &status, 0);
    children_.erase(child);
    return status;
  }

  // A connected transport, or null.
  std::unique_ptr<Transport> connect(Rank rank, size_t segment_bytes = 4 << 20) {
    auto made = make_shm({.identity = {.job = 3, .rank = rank, .world = ranks_}, .segment_bytes = segment_bytes});
    if (!made.ok()) return nullptr;
    const std::string mine = (*made)->address();
    std::memcpy(board_->rows[rank].address, mine.data(), mine.size());
    board_->rows[rank].bytes.store(static_cast<uint32_t>(mine.size()));
    std::vector<Peer> peers;
    const Deadline deadline = Deadline::after_ms(kPatienceMs);
    for (Rank peer = 0; peer < ranks_; ++peer) {
      if (peer == rank) continue;
      while (board_->rows[peer].bytes.load() == 0) {
        if (deadline.passed()) return nullptr;
        sched_yield();
      }
      peers.push_back({peer, std::string(board_->rows[peer].address, board_->rows[peer].bytes.load())});
    }
    const Status status = (*made)->connect(peers, deadline);
    if (!status.ok()) {
      WARN(status.text());
      return nullptr;
    }
    return std::move(made).value();
  }

 private:
  uint32_t ranks_;
  Board* board_ = nullptr;
  std::set<pid_t> children_;
};

std::byte pattern(uint64_t seq, size_t i) { return static_cast<std::byte>(seq * 37 + i * 11 + (i >> 8)); }

Frame frame_of(uint64_t seq, size_t bytes) { return {.slice = 4, .bytes = bytes, .fingerprint = seq}; }

bool send(Transport& transport, Rank to, uint64_t seq, size_t bytes) {
  std::vector<std::byte> data(bytes);
  for (size_t i = 0; i < bytes; ++i) data[i] = pattern(seq, i);
  std::vector<Completion> none;
  const Deadline deadline = Deadline::after_ms(kPatienceMs);
  for (;;) {
    const Sent sent = transport.endpoint(to)->send(frame_of(seq, bytes), data.data(), 0);
    if (sent == Sent::done) return true;
    if (sent != Sent::again || deadline.passed()) return false;
    transport.progress(none);
    sched_yield();
  }
}

// The next message of a peer: its number, checked against the pattern; -1: none will come; -2: it is damaged.
int64_t receive(Transport& transport, Rank from) {
  Endpoint& link = *transport.endpoint(from);
  std::vector<Completion> none;
  Message message;
  const Deadline deadline = Deadline::after_ms(kPatienceMs);
  while (!link.poll(key_of(frame_of(0, 0)), &message)) {
    if (!link.status().ok() || deadline.passed()) return -1;
    transport.progress(none);
    sched_yield();
  }
  const uint64_t seq = message.frame.fingerprint;
  bool right = true;
  for (size_t i = 0; i < message.frame.bytes; ++i) right &= message.data[i] == pattern(seq, i);
  link.release(message);
  return right ? static_cast<int64_t>(seq) : -2;
}

size_t size_of_message(uint64_t seq) { return seq % 3 == 0 ? 64 << 10 : seq % 3 == 1 ? 40 : 5000; }

std::set<std::string> names_in(const char* folder) {
  std::set<std::string> names;
  DIR* open = opendir(folder);
  if (open == nullptr) return names;
  while (const dirent* entry = readdir(open)) names.insert(entry->d_name);
  closedir(open);
  return names;
}

}  // namespace

TEST_CASE("shm processes: a peer killed in mid-stream fails the link behind what it had published") {
  Job job(2);
  const pid_t child = job.start([&] {
    auto transport = job.connect(1);
    if (transport == nullptr) return 1;
    for (uint64_t seq = 0;; ++seq) {
      if (!send(*transport, 0, seq, size_of_message(seq))) return 2;
      job.board().counter.store(seq + 1);
    }
  });
  auto transport = job.connect(0);
  REQUIRE(transport != nullptr);
  for (int64_t seq = 0; seq < 500; ++seq) REQUIRE(receive(*transport, 1) == seq);
  kill(child, SIGKILL);
  CHECK(WIFSIGNALED(job.wait(child)));
  const uint64_t published = job.board().counter.load();
  int64_t next = 500, got;
  while ((got = receive(*transport, 1)) == next) ++next;
  CHECK(got == -1);
  CHECK(static_cast<uint64_t>(next) >= published);
  CHECK(static_cast<uint64_t>(next) <= published + 1);
  CHECK(transport->endpoint(1)->status().text() == "shm: rank 1 closed its socket");
}

TEST_CASE("shm processes: a sleeping rank is woken by a message and by a peer's death") {
  Job job(2);
  const pid_t child = job.start([&] {
    auto transport = job.connect(1);
    while (job.board().counter.load() != 1) sched_yield();
    if (transport == nullptr || !send(*transport, 0, 0, 8)) return 1;
    while (job.board().counter.load() != 2) sched_yield();
    raise(SIGKILL);
    return 2;
  });
  auto transport = job.connect(0);
  REQUIRE(transport != nullptr);
  const auto sleep_once = [&](uint64_t count) {
    std::vector<Completion> none;
    while (!transport->arm()) transport->progress(none);
    job.board().counter.store(count);
    pollfd waiting{.fd = transport->wait_fd(), .events = POLLIN, .revents = 0};
    const int woken = ::poll(&waiting, 1, static_cast<int>(kPatienceMs));
    transport->disarm();
    return woken == 1;
  };
  CHECK(sleep_once(1));
  CHECK(receive(*transport, 1) == 0);
  CHECK(sleep_once(2));
  CHECK(receive(*transport, 1) == -1);
  CHECK(transport->endpoint(1)->status().code() == Code::peer);
  CHECK(WIFSIGNALED(job.wait(child)));
}

TEST_CASE("shm processes: whoever leaves in order loses nothing, however much is under way") {
  Job job(2);
  constexpr int64_t kMany = 200;  // more than the pool has slots
  const pid_t child = job.start([&] {
    auto transport = job.connect(1);
    if (transport == nullptr) return 1;
    for (uint64_t seq = 0; seq < kMany; ++seq)
      if (!send(*transport, 0, seq, size_of_message(seq))) return 2;
    transport.reset();
    return 0;
  });
  auto transport = job.connect(0);
  REQUIRE(transport != nullptr);
  for (int64_t seq = 0; seq < 10; ++seq) REQUIRE(receive(*transport, 1) == seq);
  // Nobody asks for the rest until the child has ended.
  std::vector<Completion> none;
  int status = 0;
  while (waitpid(child, &status, WNOHANG) == 0) transport->progress(none);
  CHECK((WIFEXITED(status) && WEXITSTATUS(status) == 0));
  for (int64_t seq = 10; seq < kMany; ++seq) REQUIRE(receive(*transport, 1) == seq);
  CHECK(receive(*transport, 1) == -1);
}

TEST_CASE("shm processes: eight ranks get along with 64 descriptors each") {
  Job job(kMaxRanks);
  std::vector<pid_t> ranks;
  for (Rank rank = 0; rank < kMaxRanks; ++rank) {
    ranks.push_back(job.start([&, rank] {
      const rlimit few{64, 64};
      if (setrlimit(RLIMIT_NOFILE, &few) != 0) return 1;
      auto transport = job.connect(rank, 8 << 20);
      if (transport == nullptr) return 2;
      for (Rank peer = 0; peer < kMaxRanks; ++peer)
        if (peer != rank && !send(*transport, peer, rank, 3000)) return 3;
      for (Rank peer = 0; peer < kMaxRanks; ++peer)
        if (peer != rank && receive(*transport, peer) != peer) return 4;
      job.board().counter.fetch_add(1);
      while (job.board().counter.load() < kMaxRanks) sched_yield();
      // One socket a peer, the epoll descriptor, and what the test itself has.
      return names_in("/proc/self/fd").size() <= kMaxRanks + 12 ? 0 : 5;
    }));
  }
  for (const pid_t child : ranks) {
    const int status = job.wait(child);
    REQUIRE(WIFEXITED(status));
    CHECK(WEXITSTATUS(status) == 0);
  }
}

TEST_CASE("shm processes: nothing is left in /dev/shm, not even by the killed") {
  const std::set<std::string> before = names_in("/dev/shm");
  Job job(2);
  const pid_t child = job.start([&] {
    auto transport = job.connect(1);
    if (transport == nullptr || !send(*transport, 0, 0, 64 << 10)) return 1;
    pause();
    return 0;
  });
  auto transport = job.connect(0);
  REQUIRE(transport != nullptr);
  REQUIRE(receive(*transport, 1) == 0);
  kill(child, SIGKILL);
  job.wait(child);
  CHECK(names_in("/dev/shm") == before);
}
