// What the shared-memory transport costs by itself, between two forked processes: half a round trip of a small message
// through send, poll and release; a stream of full slots (copied in, and committed without a copy); the one-shot cells.
//
//   micro_shm [repeats]
#include <sched.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <string>
#include <vector>

#include "kernels/kernels.h"
#include "transport/cells.h"
#include "transports/shm/shm.h"

namespace {

using namespace rondo;

constexpr int64_t kPatienceMs = 20'000;
constexpr uint32_t kBatches = 40;  // the least and the median of them are reported: other load only ever adds
constexpr uint64_t kRounds = 2'000;
constexpr size_t kSlotBytes = 64 << 10;
constexpr uint64_t kSlots = 500;
constexpr uint32_t kSpins = 2'000;  // before giving way to whoever shares the core

[[noreturn]] void die(const char* what, const Status& status) {
  std::fprintf(stderr, "micro_shm: %s: %s\n", what, status.text().c_str());
  std::_Exit(1);
}

Frame frame_of(size_t bytes) { return {.seq = 1, .bytes = bytes}; }

// Gives way after a while of waiting in vain.
class Patience {
 public:
  void wait() {
    if (++spins_ % kSpins == 0) sched_yield();
  }

 private:
  uint32_t spins_ = 0;
};

struct Times {
  double least = 0, median = 0;
};
template <class Batch>
Times measure(uint64_t units, Batch batch) {
  std::vector<double> ns;
  for (uint32_t i = 0; i < kBatches; ++i) {
    const int64_t start = now_ns();
    batch();
    ns.push_back(static_cast<double>(now_ns() - start) / static_cast<double>(units));
  }
  std::sort(ns.begin(), ns.end());
  return {ns.front(), ns[ns.size() / 2]};
}

// Both sides of the pair; `step` does the rest.
class Side {
 public:
  Side(Rank rank, int to, int from) : rank_(rank) {
    auto made = make_shm({.identity = {.job = 1, .rank = rank, .world = 2}});
    if (!made.ok()) die("create", made.status());
    transport_ = std::move(made).value();
    const std::string mine = transport_->address();
    if (write(to, mine.data(), mine.size()) < 0) std::_Exit(1);
    char text[512];
    const ssize_t got = read(from, text, sizeof text);
    if (got <= 0) std::_Exit(1);
    const Peer peer{1 - rank, std::string(text, static_cast<size_t>(got))};
    const Status connected = transport_->connect({&peer, 1}, Deadline::after_ms(kPatienceMs));
    if (!connected.ok()) die("connect", connected);
    link_ = transport_->endpoint(1 - rank);
  }

  Message receive(size_t bytes) {
    Message message;
    Patience patience;
    while (!link_->poll(key_of(frame_of(bytes)), &message)) {
      transport_->progress(none_);
      patience.wait();
      if (!link_->status().ok()) die("receive", link_->status());
    }
    return message;
  }
  void send(const std::byte* data, size_t bytes) {
    Patience patience;
    for (; link_->send(frame_of(bytes), data, 0) == Sent::again; patience.wait()) transport_->progress(none_);
  }
  void commit(size_t bytes) {
    Slot slot;
    Patience patience;
    for (; (slot = transport_->reserve(bytes, 1)).data == nullptr; patience.wait()) transport_->progress(none_);
    slot.data[0] = std::byte{1};
    if (link_->commit(frame_of(bytes), slot) == Sent::failed) die("commit", link_->status());
  }

  Times ping_pong(size_t bytes) {
    std::vector<std::byte> data(std::max<size_t>(bytes, 1));
    return measure(2 * kRounds, [&] {
      for (uint64_t i = 0; i < kRounds; ++i) {
        if (rank_ == 0) send(data.data(), bytes);
        link_->release(receive(bytes));
        if (rank_ == 1) send(data.data(), bytes);
      }
    });
  }
  // One way; the receiver reads every line. Nanoseconds a slot, as rank 0 sees it.
  Times stream(bool copied) {
    std::vector<std::byte> data(kSlotBytes, std::byte{3});
    return measure(kSlots, [&] {
      for (uint64_t i = 0; i < kSlots && rank_ == 0; ++i) copied ? send(data.data(), kSlotBytes) : commit(kSlotBytes);
      for (uint64_t i = 0; i < kSlots && rank_ == 1; ++i) {
        const Message message = receive(kSlotBytes);
        kernels::best().copy(data.data(), nullptr, message.data, kSlotBytes);
        link_->release(message);
      }
      if (rank_ == 1) send(data.data(), 1);
      if (rank_ == 0) link_->release(receive(1));
    });
  }
  Times one_shot(size_t bytes) {
    const Rank members[] = {0, 1};
    auto area = transport_->share(bytes, members, Cells::area_bytes(2), Writers::owner);
    if (!area.ok()) die("share", area.status());
    const std::byte* pieces[2] = {};
    Patience patience;
    for (uint32_t i = 0; i < 2; ++i)
      while ((pieces[i] = (*area)->of(i)) == nullptr) patience.wait();
    Cells cells;
    cells.bind((*area)->mine(), pieces);
    std::vector<std::byte> data(std::max<size_t>(bytes, 1));
    uint64_t turn = 0;
    const Times times = measure(kRounds, [&] {
      for (uint64_t i = 0; i < kRounds; ++i) {
        cells.publish(++turn, 7, data.data(), bytes);
        while (cells.ready(1 - rank_, turn).payload == nullptr) patience.wait();
      }
    });
    send(data.data(), 1);  // nobody leaves while the other still reads
    link_->release(receive(1));
    return times;
  }

 private:
  Rank rank_;
  std::unique_ptr<Transport> transport_;
  Endpoint* link_ = nullptr;
  std::vector<Completion> none_;
};

void run(Rank rank, int to, int from, int repeats) {
  Side side(rank, to, from);
  const auto print = [&](const char* what, size_t bytes, const Times& ns) {
    if (rank != 0) return;
    std::printf("%-18s %6zu B  least %9.1f ns (%5.1f GB/s), median %9.1f ns\n", what, bytes, ns.least,
                static_cast<double>(bytes) / ns.least, ns.median);
    std::fflush(stdout);
  };
  for (int i = 0; i < repeats; ++i) {
    for (const size_t bytes : {size_t{0}, size_t{8}, size_t{80}, size_t{1024}, size_t{16384}})
      print("half a ping-pong", bytes, side.ping_pong(bytes));
    print("stream, copied", kSlotBytes, side.stream(true));
    print("stream, committed", kSlotBytes, side.stream(false));
    for (const size_t bytes : {size_t{8}, size_t{48}, size_t{1024}})
      print("one-shot turn", bytes, side.one_shot(bytes));
  }
}

}  // namespace

int main(int argc, char** argv) {
  const int repeats = argc > 1 ? std::atoi(argv[1]) : 1;
  int up[2], down[2];
  if (pipe(up) != 0 || pipe(down) != 0) return 1;
  const pid_t child = fork();
  if (child < 0) return 1;
  if (child == 0) {
    run(1, up[1], down[0], repeats);
    std::_Exit(0);
  }
  run(0, down[1], up[0], repeats);
  int status = 0;
  waitpid(child, &status, 0);
  return WIFEXITED(status) ? WEXITSTATUS(status) : 1;
}
