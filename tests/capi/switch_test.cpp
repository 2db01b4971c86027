// Allreduce at every size where the way it runs changes, on shared memory: chosen and forced, from private memory and
// from rondo_alloc, in place and not, blocking and several in flight at once.
#include <catch2/catch.hpp>

#include <algorithm>

#include "ranks.h"

using namespace rondo_test;

namespace {

// Elements on both sides of every size at which the choice, the rounds or the stores change (see src/tune/choose.cpp
// and src/exec/workspace.h).
std::vector<size_t> counts_at_switches(int32_t world) {
  std::vector<size_t> counts;
  for (const size_t bytes :
       {size_t{4096}, size_t{16384}, size_t{32768}, size_t{131072}, size_t{262144}, size_t{524288},
        size_t{64 << 10} * static_cast<size_t>(world), size_t{32 << 20} / 4 / static_cast<size_t>(world)})
    for (const size_t count : {bytes / 4 - 1, bytes / 4, bytes / 4 + 1}) counts.push_back(count);
  return counts;
}

// Values repeat every kPeriod elements.
constexpr size_t kPeriod = 16;

float value(size_t i, int32_t rank, uint32_t call) {
  return static_cast<float>((i + static_cast<size_t>(rank) * 3 + call) % kPeriod);
}

void fill(float* data, size_t count, int32_t rank, uint32_t call) {
  float period[kPeriod];
  for (size_t i = 0; i < kPeriod; ++i) period[i] = value(i, rank, call);
  for (size_t i = 0; i < count; ++i) data[i] = period[i % kPeriod];
}

struct Floats {
  Floats(rondo_comm* comm, size_t count, bool shared) : comm(shared ? comm : nullptr), own(shared ? 0 : count) {
    data = own.data();
    void* memory = nullptr;
    if (shared && rondo_alloc(comm, count * sizeof(float), &memory) == RONDO_OK) data = static_cast<float*>(memory);
  }
  Floats(const Floats&) = delete;
  ~Floats() {
    if (comm != nullptr) rondo_free(comm, data);
  }
  rondo_comm* comm;
  std::vector<float> own;
  float* data;
};

enum class Memory { own, shared, mixed };

bool is_shared(Memory memory, int32_t rank) {
  return memory == Memory::shared || (memory == Memory::mixed && rank % 2 == 0);
}

void check(Notes& notes, const float* out, size_t count, int32_t world, uint32_t call, const std::string& what) {
  float period[kPeriod] = {};
  for (size_t i = 0; i < kPeriod; ++i)
    for (int32_t rank = 0; rank < world; ++rank) period[i] += value(i, rank, call);
  size_t wrong = count;
  for (size_t i = count; i-- > 0;) wrong = out[i] == period[i % kPeriod] ? wrong : i;
  if (wrong == count) return;
  notes.add(
      fmt::format("{}: element {} of {} is {}, expected {}", what, wrong, count, out[wrong], period[wrong % kPeriod]));
}

void at_switches(const char* algorithm, int32_t world, Memory memory) {
  INFO((algorithm != nullptr ? algorithm : "chosen") << ", world " << world << ", memory " << static_cast<int>(memory));
  const std::string wrong = run_ranks(
      {.world = world, .transports = "shm", .algorithm = algorithm}, [&](rondo_comm* comm, int32_t rank, Notes& notes) {
        uint32_t call = 0;
        for (const size_t count : counts_at_switches(world))
          for (const bool in_place : {false, true}) {
            const bool shared = is_shared(memory, rank);
            Floats in(comm, count, shared), out(comm, in_place ? 1 : count, shared);
            float* const result = in_place ? in.data : out.data;
            for (int twice = 0; twice < 2; ++twice) {  // the first call and the short way
              ++call;
              fill(in.data, count, rank, call);
              const rondo_status status =
                  rondo_allreduce(comm, in.data, result, count, RONDO_FLOAT32, RONDO_SUM, nullptr);
              if (!notes.expect(status == RONDO_OK, error_text(comm))) return;
              check(notes, result, count, world, call, in_place ? "in place" : "out of place");
            }
          }
      });
  CHECK(wrong == "");
}

}  // namespace

TEST_CASE("switches: every size where the way changes, chosen and forced, worlds 2 to 5") {
  for (int32_t world = 2; world <= 5; ++world)
    for (const char* algorithm : {static_cast<const char*>(nullptr), "owners", "claims", "direct"})
      for (const Memory memory : {Memory::own, Memory::shared, Memory::mixed}) {
        if (algorithm != nullptr && world > 3) continue;
        at_switches(algorithm, world, memory);
      }
}

TEST_CASE("switches: calls of all sizes in flight at once, waited for in any order") {
  for (const Memory memory : {Memory::own, Memory::shared, Memory::mixed}) {
    const std::string wrong =
        run_ranks({.world = 3, .transports = "shm"}, [&](rondo_comm* comm, int32_t rank, Notes& notes) {
          constexpr size_t kCounts[] = {2, 1024, 1025, 5000, 200'000, 3, 70'000, 1025, 1'000'000, 1, 0, 40'000};
          for (uint32_t turn = 0; turn < 4; ++turn) {
            std::vector<std::unique_ptr<Floats>> in, out;
            std::vector<rondo_op*> ops(std::size(kCounts));
            for (size_t k = 0; k < std::size(kCounts); ++k) {
              in.push_back(std::make_unique<Floats>(comm, kCounts[k] + 1, is_shared(memory, rank)));
              out.push_back(std::make_unique<Floats>(comm, kCounts[k] + 1, is_shared(memory, rank)));
              fill(in[k]->data, kCounts[k], rank, static_cast<uint32_t>(k) + turn);
            }
            for (size_t k = 0; k < std::size(kCounts); ++k) {
              // Every third call blocks, with others pending before it.
              rondo_op** op = k % 3 == 2 ? nullptr : &ops[k];
              const rondo_status status =
                  rondo_allreduce(comm, in[k]->data, out[k]->data, kCounts[k], RONDO_FLOAT32, RONDO_SUM, op);
              if (!notes.expect(status == RONDO_OK, error_text(comm))) return;
            }
            for (size_t j = 0; j < std::size(kCounts); ++j) {
              const size_t k = (j * 7 + turn + static_cast<size_t>(rank)) % std::size(kCounts);
              if (ops[k] != nullptr) notes.expect(rondo_op_wait(ops[k], -1) == RONDO_OK, error_text(comm));
            }
            for (size_t k = 0; k < std::size(kCounts); ++k) {
              check(notes, out[k]->data, kCounts[k], 3, static_cast<uint32_t>(k) + turn, "in flight");
              if (ops[k] != nullptr) rondo_op_free(ops[k]);
            }
          }
        });
    CHECK(wrong == "");
  }
}

TEST_CASE("switches: a communicator that has left gives its workspace back") {
  const std::string wrong =
      run_ranks({.world = 3, .transports = "shm"}, [&](rondo_comm* comm, int32_t rank, Notes& notes) {
        std::vector<float> in(20'000), out(20'000);
        // Each touches a few megabytes a rank; none of them is kept.
        for (uint32_t turn = 0; turn < 60; ++turn) {
          rondo_comm* part = nullptr;
          if (!notes.expect(rondo_split(comm, 0, rank, &part) == RONDO_OK, error_text(comm))) return;
          fill(in.data(), in.size(), rank, turn);
          const rondo_status status =
              rondo_allreduce(part, in.data(), out.data(), in.size(), RONDO_FLOAT32, RONDO_SUM, nullptr);
          notes.expect(status == RONDO_OK, error_text(part));
          check(notes, out.data(), out.size(), 3, turn, "a split");
          rondo_destroy(part);
        }
      });
  CHECK(wrong == "");
}
