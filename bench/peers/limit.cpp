// What memory allows: bare code for an allreduce among LIMIT_RANKS processes whose buffers all of them map. Above 4 KiB
// every rank reads its 1/p of all p inputs in place and writes the sum into all p outputs, between one entry and one
// exit synchronisation; with more ranks than processors whoever runs takes the next 64 KiB that nobody has taken. Up to
// 4 KiB every rank puts its input beside its flag, two places in turn, and reads all of them after the one
// synchronisation. No arguments are checked, nobody is told of anything, and nobody sleeps.
#include <immintrin.h>
#include <sched.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <csignal>

#include "worker.h"

namespace {

constexpr size_t kSmallBytes = 4096;
constexpr size_t kMostValues = 4096;
constexpr size_t kPiece = 16384;  // floats, that whoever runs takes on crowded hosts

#if defined(__AVX512F__)
constexpr size_t kStored = 16;
void store_past_caches(float* to, const float* from) { _mm512_stream_ps(to, _mm512_load_ps(from)); }
#elif defined(__AVX__)
constexpr size_t kStored = 8;
void store_past_caches(float* to, const float* from) { _mm256_stream_ps(to, _mm256_load_ps(from)); }
#else
constexpr size_t kStored = 4;
void store_past_caches(float* to, const float* from) { _mm_stream_ps(to, _mm_load_ps(from)); }
#endif

struct alignas(128) Flag {
  std::atomic<uint64_t> turn;
};

struct alignas(128) Cell {
  std::atomic<uint64_t> turn;
  float payload[kSmallBytes / sizeof(float)];
};

struct alignas(4096) Place {
  Flag flag, ticket, done;  // the latter two in the place of rank 0
  Cell cells[2];
  double values[kMostValues];
};

class Limit final : public peers::Engine {
 public:
  Limit(int rank, int world, Place* places, std::byte* memory, size_t buffer_bytes)
      : rank_(rank),
        world_(world),
        places_(places),
        memory_(memory),
        buffer_bytes_(buffer_bytes),
        crowded_(world > sysconf(_SC_NPROCESSORS_ONLN)),
        patience_(crowded_ ? 2 : 200) {}
  int rank() const override { return rank_; }
  int world() const override { return world_; }
  float* buffer(size_t) override { return at(rank_, buffers_++); }

  void run(const peers::Call& call) override {
    const float* const in = call.in;
    float* const out = call.out;
    const size_t count = call.count;
    if (count * sizeof(float) <= kSmallBytes) return small(in, out, count);
    const int input = in == at(rank_, 0) ? 0 : 1, output = out == at(rank_, 0) ? 0 : 1;
    const auto world = static_cast<uint64_t>(world_);
    const bool stream = 2 * world * count * sizeof(float) > cache_bytes_;
    barrier();
    if (!crowded_) {
      const size_t part = (count / world + 15) / 16 * 16;
      const size_t begin = std::min(count, part * static_cast<size_t>(rank_));
      sum(input, output, begin, rank_ + 1 == world_ ? count : std::min(count, begin + part), stream);
      barrier();
      return;
    }
    // Tickets and pieces done are counted over all calls; one of the next call is not drawn before this one is over.
    const size_t piece = std::min(kPiece, (count / world + 15) / 16 * 16);
    const uint64_t first = drawn_, pieces = (count + piece - 1) / piece;
    drawn_ += pieces;
    std::atomic<uint64_t>& ticket = places_[0].ticket.turn;
    for (uint64_t mine = ticket.load(); mine < drawn_;)
      if (ticket.compare_exchange_weak(mine, mine + 1)) {
        const size_t begin = (mine - first) * piece;
        sum(input, output, begin, std::min(count, begin + piece), stream);
        places_[0].done.turn.fetch_add(1);
        mine = ticket.load();
      }
    await(places_[0].done.turn, drawn_);
  }

  void max(double* values, size_t count) override {
    std::copy_n(values, count, places_[rank_].values);
    barrier();
    for (int rank = 0; rank < world_; ++rank)
      for (size_t i = 0; i < count; ++i) values[i] = std::max(values[i], places_[rank].values[i]);
    barrier();
  }

  void barrier() override {
    places_[rank_].flag.turn.store(++turn_, std::memory_order_release);
    for (int rank = 0; rank < world_; ++rank) await(places_[rank].flag.turn, turn_);
  }

 private:
  float* at(int rank, int number) const {
    return reinterpret_cast<float*>(memory_ + static_cast<size_t>(rank * 2 + number) * buffer_bytes_);
  }

  void small(const float* in, float* out, size_t count) {
    // The turn after the next begins only when everybody has left this one, so two places are enough.
    const uint64_t turn = ++small_turn_;
    const auto cell = [&](int rank) -> Cell& { return places_[rank].cells[turn & 1]; };
    for (size_t i = 0; i < count; ++i) cell(rank_).payload[i] = in[i];
    cell(rank_).turn.store(turn, std::memory_order_release);
    for (int rank = 0; rank < world_; ++rank)
      if (rank != rank_) await(cell(rank).turn, turn);
    // The own input and not the own cell, which the others read just now.
    const auto payload = [&](int rank) { return rank == rank_ ? in : cell(rank).payload; };
    add(out, payload(0), payload(1), count);
    for (int rank = 2; rank < world_; ++rank) add(out, out, payload(rank), count);
  }

  void await(const std::atomic<uint64_t>& word, uint64_t turn) const {
    for (int tries = 0; word.load(std::memory_order_acquire) < turn; ++tries)
      if (tries < patience_) {
        _mm_pause();
      } else {
        sched_yield();
      }
  }

  static void add(float* to, const float* a, const float* b, size_t count) {
#pragma GCC ivdep
    for (size_t i = 0; i < count; ++i) to[i] = a[i] + b[i];
  }

  static void add_twice(float* to, float* and_to, const float* a, const float* b, size_t count) {
#pragma GCC ivdep
    for (size_t i = 0; i < count; ++i) to[i] = and_to[i] = a[i] + b[i];
  }

  // All inputs side by side, so that the processor fetches ahead in each of them.
  template <int world>
  void add_all(int input, size_t at_element, size_t count) {
    const float* from[world];
    for (int rank = 0; rank < world; ++rank) from[rank] = at(rank, input) + at_element;
#pragma GCC ivdep
    for (size_t i = 0; i < count; ++i) {
      float sum = from[0][i];
      for (int rank = 1; rank < world; ++rank) sum += from[rank][i];
      block_[i] = sum;
    }
  }

  // In blocks that stay in the first cache: every input and every output is one stream at a time.
  void sum(int input, int output, size_t begin, size_t end, bool stream) {
    if (world_ == 2 && !stream)
      return add_twice(at(0, output) + begin, at(1, output) + begin, at(0, input) + begin, at(1, input) + begin,
                       end - begin);
    for (size_t at_element = begin; at_element < end; at_element += kBlock) {
      const size_t count = std::min(kBlock, end - at_element);
      if (world_ == 4) {
        add_all<4>(input, at_element, count);
      } else if (world_ == 8) {
        add_all<8>(input, at_element, count);
      } else {
        add(block_, at(0, input) + at_element, at(1, input) + at_element, count);
        for (int rank = 2; rank < world_; ++rank) add(block_, block_, at(rank, input) + at_element, count);
      }
      for (int rank = 0; rank < world_; ++rank) put(at(rank, output) + at_element, count, stream);
    }
    if (stream) _mm_sfence();
  }

  void put(float* to, size_t count, bool stream) const {
    size_t i = 0;
    if (stream)
      for (; i + kStored <= count; i += kStored) store_past_caches(to + i, block_ + i);
    std::copy_n(block_ + i, count - i, to + i);
  }

  static constexpr size_t kBlock = 8192;
  alignas(64) float block_[kBlock];
  int rank_, world_;
  Place* places_;
  std::byte* memory_;
  size_t buffer_bytes_;
  bool crowded_;  // more ranks than processors
  int patience_;
  uint64_t drawn_ = 0;
  // Where all buffers together do not stay in the last cache, outputs are stored past it.
  const size_t cache_bytes_ = static_cast<size_t>(std::max(sysconf(_SC_LEVEL3_CACHE_SIZE), 1L << 20));
  int buffers_ = 0;
  uint64_t turn_ = 0, small_turn_ = 0;
};

// Each rank has a processor of its own as far as there are any: nothing moves it there while it spins.
void pin(int rank) {
  cpu_set_t usable, own;
  if (sched_getaffinity(0, sizeof usable, &usable) != 0) return;
  int skip = rank % CPU_COUNT(&usable);
  for (int cpu = 0; cpu < CPU_SETSIZE; ++cpu) {
    if (!CPU_ISSET(cpu, &usable) || skip-- > 0) continue;
    CPU_ZERO(&own);
    CPU_SET(cpu, &own);
    sched_setaffinity(0, sizeof own, &own);
    return;
  }
}

}  // namespace

int main(int argc, char** argv) {
  const char* given = std::getenv("LIMIT_RANKS");
  const int world = given == nullptr ? 0 : std::atoi(given);
  if (world < 2 || argc < 3) {
    std::fprintf(stderr, "usage: LIMIT_RANKS=n, at least 2, %s bytes,bytes,... milliseconds-per-size\n", argv[0]);
    return 2;
  }
  size_t largest = 0;
  std::stringstream list(argv[1]);
  for (std::string item; std::getline(list, item, ',');)
    largest = std::max<size_t>(largest, std::strtoull(item.c_str(), nullptr, 10));
  // A line more than whole pages, so that the buffers do not all begin in the same sets of the caches.
  const size_t buffer_bytes = (largest / 4096 + 2) * 4096 + 128;
  const size_t places_bytes = sizeof(Place) * static_cast<size_t>(world);
  void* memory = mmap(nullptr, places_bytes + 2 * static_cast<size_t>(world) * buffer_bytes, PROT_READ | PROT_WRITE,
                      MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  if (memory == MAP_FAILED) return 1;
  auto* places = static_cast<Place*>(memory);
  auto* buffers = static_cast<std::byte*>(memory) + places_bytes;
  std::vector<pid_t> children;
  for (int rank = 1; rank < world; ++rank) {
    const pid_t child = fork();
    if (child < 0) return 1;
    if (child == 0) {
      prctl(PR_SET_PDEATHSIG, SIGKILL);
      pin(rank);
      Limit engine(rank, world, places, buffers, buffer_bytes);
      _exit(peers::run(engine, argc, argv));
    }
    children.push_back(child);
  }
  pin(0);
  Limit engine(0, world, places, buffers, buffer_bytes);
  int failed = peers::run(engine, argc, argv);
  for (const pid_t child : children) {
    int status = 0;
    waitpid(child, &status, 0);
    failed |= status != 0;
  }
  return failed;
}
