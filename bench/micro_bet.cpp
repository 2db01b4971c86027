// The price of interpretation: rondo_allreduce on 2 ranks of one host beside code written by hand for exactly that
// case, over shared memory of the same kind, with the same argument checks and fingerprint word. Both sides run in the
// same two processes, in interleaved rounds; what is printed are medians of per-round ratios.
//
//   micro_bet [rounds]
//
// By hand, 8 bytes: payload, fingerprint and flag in one cache line, two alternating lines a rank, spin. By hand, large
// and private buffers: each rank owns half; pieces of 64 KiB are copied in, reduced into the output and a slot
// together, and copied out, one flag a piece, 8 slots a direction, no barrier.
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <csignal>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string>
#include <vector>

#include "kernels/kernels.h"
#include "rondo/rondo.h"

namespace {

constexpr size_t kPieceBytes = 64 << 10;
constexpr uint32_t kSlots = 8;

int64_t now_ns() {
  timespec t;
  clock_gettime(CLOCK_MONOTONIC, &t);
  return static_cast<int64_t>(t.tv_sec) * 1'000'000'000 + t.tv_nsec;
}

struct alignas(128) Cell {
  std::atomic<uint64_t> flag;
  uint64_t fingerprint;
  float payload[12];
};

struct alignas(128) Flag {
  std::atomic<uint64_t> value;
};

struct Side {
  Cell cells[2];
  Flag in_ready[kSlots], in_free[kSlots], out_ready[kSlots], out_free[kSlots];
  alignas(4096) std::byte in_slot[kSlots][kPieceBytes];
  std::byte out_slot[kSlots][kPieceBytes];
};

struct Board {
  Side side[2];
  std::atomic<uint32_t> entered[2];
};

uint64_t mix(uint64_t x) {
  x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9u;
  x = (x ^ (x >> 27)) * 0x94d049bb133111ebu;
  return x ^ (x >> 31);
}

// The two allreduces by hand, for one rank of two.
class ByHand {
 public:
  ByHand(Board& board, int rank) : mine_(board.side[rank]), theirs_(board.side[1 - rank]), rank_(rank) {}

  bool small(const float* in, float* out, size_t count) {
    if (in == nullptr || out == nullptr || count > 12) return false;
    chain_ = mix(chain_ ^ mix(count ^ 0x700u));
    const uint64_t turn = ++turn_;
    Cell& cell = mine_.cells[turn & 1];
    cell.fingerprint = chain_;
    for (size_t i = 0; i < count; ++i) cell.payload[i] = in[i];
    cell.flag.store(turn, std::memory_order_release);
    const Cell& other = theirs_.cells[turn & 1];
    while (other.flag.load(std::memory_order_acquire) != turn) __builtin_ia32_pause();
    if (other.fingerprint != chain_) return false;
    for (size_t i = 0; i < count; ++i) out[i] = rank_ == 0 ? in[i] + other.payload[i] : other.payload[i] + in[i];
    return true;
  }

  bool large(const float* in, float* out, size_t count) {
    if (in == nullptr || out == nullptr || count % 2 != 0) return false;
    chain_ = mix(chain_ ^ mix(count ^ 0x700u));
    const size_t half = count / 2, piece = kPieceBytes / sizeof(float), pieces = (half + piece - 1) / piece;
    const float *theirs_in = in + (rank_ == 0 ? half : 0), *own_in = in + (rank_ == 0 ? 0 : half);
    float *own_out = out + (rank_ == 0 ? 0 : half), *theirs_out = out + (rank_ == 0 ? half : 0);
    const auto length = [&](size_t i) { return std::min(piece, half - i * piece); };
    for (size_t step = 0; step < pieces + 4; ++step) {
      if (step < pieces) copy_in(theirs_in + step * piece, length(step), base_ + step);
      if (step >= 2 && step - 2 < pieces)
        reduce(own_in + (step - 2) * piece, own_out + (step - 2) * piece, length(step - 2), base_ + step - 2);
      if (step >= 4) copy_out(theirs_out + (step - 4) * piece, length(step - 4), base_ + step - 4);
    }
    base_ += pieces;
    return true;
  }

 private:
  static void await(const std::atomic<uint64_t>& flag, uint64_t value) {
    while (flag.load(std::memory_order_acquire) < value) __builtin_ia32_pause();
  }
  // in_free and out_free count the uses of a slot that are over, written by the reader.
  void copy_in(const float* from, size_t count, size_t number) {
    const size_t slot = number % kSlots;
    await(theirs_.in_free[slot].value, number / kSlots);
    table_.copy(mine_.in_slot[slot], nullptr, from, count * sizeof(float));
    mine_.in_ready[slot].value.store(number / kSlots + 1, std::memory_order_release);
  }
  void reduce(const float* own, float* out, size_t count, size_t number) {
    const size_t slot = number % kSlots;
    await(theirs_.in_ready[slot].value, number / kSlots + 1);
    await(theirs_.out_free[slot].value, number / kSlots);
    const void* sources[2] = {own, theirs_.in_slot[slot]};
    if (rank_ == 1) std::swap(sources[0], sources[1]);
    table_.reduce[static_cast<size_t>(rondo::DType::float32)][static_cast<size_t>(rondo::RedOp::sum)](
        {.sources = sources,
         .source_count = 2,
         .dst = out,
         .dst2 = mine_.out_slot[slot],
         .count = count,
         .divisor = 0});
    mine_.in_free[slot].value.store(number / kSlots + 1, std::memory_order_release);
    mine_.out_ready[slot].value.store(number / kSlots + 1, std::memory_order_release);
  }
  void copy_out(float* to, size_t count, size_t number) {
    const size_t slot = number % kSlots;
    await(theirs_.out_ready[slot].value, number / kSlots + 1);
    table_.copy(to, nullptr, theirs_.out_slot[slot], count * sizeof(float));
    mine_.out_free[slot].value.store(number / kSlots + 1, std::memory_order_release);
  }

  Side& mine_;
  Side& theirs_;
  int rank_;
  const rondo::kernels::Table& table_ = rondo::kernels::best();
  uint64_t turn_ = 0, chain_ = 1;
  size_t base_ = 0;
};

void meet(Board& board, int rank) {
  const uint32_t turn = board.entered[rank].fetch_add(1) + 1;
  while (board.entered[1 - rank].load() < turn) __builtin_ia32_pause();
}

rondo_comm* join(int rank, const char* algorithm, const std::string& name) {
  rondo_options options = RONDO_OPTIONS_INIT;
  options.rank = rank;
  options.world = 2;
  options.rendezvous = name.c_str();
  options.algorithm = algorithm;
  rondo_comm* comm = nullptr;
  if (rondo_init(&options, &comm) != RONDO_OK) {
    char text[512];
    rondo_error_text(nullptr, text, sizeof text);
    std::fprintf(stderr, "micro_bet: %s\n", text);
    std::exit(1);
  }
  return comm;
}

struct Measure {
  Board& board;
  int rank;
  // ns per call; both ranks enter together, the input changes every call.
  template <class Call>
  double time(uint32_t calls, std::vector<float>& in, Call&& call) {
    meet(board, rank);
    const int64_t begin = now_ns();
    for (uint32_t i = 0; i < calls; ++i) {
      in[i % in.size()] += 1;
      if (!call()) {
        std::fprintf(stderr, "micro_bet: a call failed\n");
        std::exit(1);
      }
    }
    return static_cast<double>(now_ns() - begin) / calls;
  }
};

struct Row {
  std::vector<double> hand, chosen, steps;
};

double median(std::vector<double> values) {
  std::sort(values.begin(), values.end());
  return values[values.size() / 2];
}

void print(const char* what, const Row& row) {
  std::vector<double> chosen, steps;
  for (size_t i = 0; i < row.hand.size(); ++i) {
    chosen.push_back(row.chosen[i] / row.hand[i]);
    steps.push_back(row.steps[i] / row.hand[i]);
  }
  std::sort(chosen.begin(), chosen.end());
  std::sort(steps.begin(), steps.end());
  const size_t low = chosen.size() / 4, high = chosen.size() * 3 / 4;
  std::printf("%-8s %10.0f %10.0f %10.0f   %5.2f (%4.2f-%4.2f)   %5.2f (%4.2f-%4.2f)\n", what, median(row.hand),
              median(row.chosen), median(row.steps), median(chosen), chosen[low], chosen[high], median(steps),
              steps[low], steps[high]);
}

void run(Board& board, int rank, uint32_t rounds, const std::string& name) {
  rondo_comm* chosen = join(rank, nullptr, name + "a");
  rondo_comm* steps = join(rank, "direct", name + "b");
  ByHand hand(board, rank);
  Measure measure{board, rank};
  if (rank == 0)
    std::printf(
        "2 ranks, fp32 sum, ns per call; ratio to the code by hand: median (quartiles) of %u rounds\n"
        "bytes       by hand      rondo  its steps   rondo/hand          steps/hand\n",
        rounds);
  for (const size_t bytes : {size_t{8}, size_t{64} << 10, size_t{1} << 20, size_t{64} << 20}) {
    const size_t count = bytes / sizeof(float);
    std::vector<float> in(count, 1.0f), out(count);
    const uint32_t calls = bytes <= 8 ? 20000 : bytes <= (64 << 10) ? 1000 : bytes <= (1 << 20) ? 100 : 4;
    Row row;
    for (uint32_t round = 0; round < rounds + 1; ++round) {
      const double by_hand = measure.time(calls, in, [&] {
        return bytes <= 8 ? hand.small(in.data(), out.data(), count) : hand.large(in.data(), out.data(), count);
      });
      const auto rondo = [&](rondo_comm* comm) {
        return measure.time(calls, in, [&] {
          return rondo_allreduce(comm, in.data(), out.data(), count, RONDO_FLOAT32, RONDO_SUM, nullptr) == RONDO_OK;
        });
      };
      const double by_choice = rondo(chosen), by_steps = rondo(steps);
      if (round == 0) continue;  // pages and caches warm up
      row.hand.push_back(by_hand);
      row.chosen.push_back(by_choice);
      row.steps.push_back(by_steps);
    }
    const std::string what = bytes >= (1 << 20) ? std::to_string(bytes >> 20) + "M"
                             : bytes >= 1024    ? std::to_string(bytes >> 10) + "K"
                                                : std::to_string(bytes);
    if (rank == 0) print(what.c_str(), row);
    std::fflush(stdout);
  }
  rondo_destroy(steps);
  rondo_destroy(chosen);
}

}  // namespace

int main(int argc, char** argv) {
  const uint32_t rounds = argc > 1 ? static_cast<uint32_t>(std::strtoul(argv[1], nullptr, 10)) : 15;
  if (rounds == 0) {
    std::fprintf(stderr, "usage: micro_bet [rounds, at least 1]\n");
    return 2;
  }
  void* memory = mmap(nullptr, sizeof(Board), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  if (memory == MAP_FAILED) return 1;
  auto* board = new (memory) Board;
  const std::string name = "unix://micro-bet-" + std::to_string(getpid());
  const pid_t child = fork();
  if (child < 0) return 1;
  if (child == 0) {
    prctl(PR_SET_PDEATHSIG, SIGKILL);  // the code by hand spins for ever when its peer is gone
    run(*board, 1, rounds, name);
    _exit(0);
  }
  // The child only ends early when something is wrong.
  std::signal(SIGCHLD, [](int) {
    int status = 0;
    if (waitpid(-1, &status, WNOHANG) > 0 && status != 0) _exit(1);
  });
  run(*board, 0, rounds, name);
  return 0;
}
