// Persistent operations, ranks as threads: every collective started again and again beside its blocking form, many in
// flight, their options, and what is refused.
#include <catch2/catch.hpp>

#include <array>
#include <atomic>
#include <cmath>
#include <cstdlib>
#include <cstring>
#include <new>
#include <numeric>

#include "ranks.h"

using namespace rondo_test;

namespace {

std::atomic<uint64_t> allocations{0};

}  // namespace

// Counted, so that a test can say that none happens.
void* operator new(size_t bytes, const std::nothrow_t&) noexcept {
  allocations.fetch_add(1, std::memory_order_relaxed);
  return std::malloc(bytes > 0 ? bytes : 1);
}
[[gnu::noinline]] void* operator new(size_t bytes) {
  void* memory = operator new(bytes, std::nothrow);
  if (memory == nullptr) throw std::bad_alloc();
  return memory;
}
[[gnu::noinline]] void operator delete(void* memory) noexcept { std::free(memory); }
[[gnu::noinline]] void operator delete(void* memory, size_t) noexcept { std::free(memory); }

namespace {

// A collective on `count` elements (of a block, where buffers are made of blocks) in its two forms.
struct Form {
  const char* name;
  rondo_status (*blocking)(rondo_comm*, const int32_t* in, int32_t* out, size_t count);
  rondo_status (*init)(rondo_comm*, const int32_t* in, int32_t* out, size_t count, rondo_op** op);
};

std::vector<size_t> equal_counts(rondo_comm* comm, size_t count) {
  return std::vector<size_t>(static_cast<size_t>(rondo_world(comm)), count);
}
int32_t last_rank(rondo_comm* comm) { return rondo_world(comm) - 1; }

const Form kForms[] = {
    {"allreduce",
     [](rondo_comm* c, const int32_t* in, int32_t* out, size_t n) {
       return rondo_allreduce(c, in, out, n, RONDO_INT32, RONDO_SUM, nullptr);
     },
     [](rondo_comm* c, const int32_t* in, int32_t* out, size_t n, rondo_op** op) {
       return rondo_allreduce_init(c, in, out, n, RONDO_INT32, RONDO_SUM, nullptr, op);
     }},
    {"reduce",
     [](rondo_comm* c, const int32_t* in, int32_t* out, size_t n) {
       return rondo_reduce(c, in, out, n, RONDO_INT32, RONDO_MAX, last_rank(c), nullptr);
     },
     [](rondo_comm* c, const int32_t* in, int32_t* out, size_t n, rondo_op** op) {
       return rondo_reduce_init(c, in, out, n, RONDO_INT32, RONDO_MAX, last_rank(c), nullptr, op);
     }},
    {"broadcast",
     [](rondo_comm* c, const int32_t* in, int32_t* out, size_t n) {
       std::copy_n(in, n, out);
       return rondo_broadcast(c, out, n, RONDO_INT32, last_rank(c), nullptr);
     },
     [](rondo_comm* c, const int32_t*, int32_t* out, size_t n, rondo_op** op) {
       return rondo_broadcast_init(c, out, n, RONDO_INT32, last_rank(c), nullptr, op);
     }},
    {"allgather",
     [](rondo_comm* c, const int32_t* in, int32_t* out, size_t n) {
       return rondo_allgather(c, in, out, n, RONDO_INT32, nullptr);
     },
     [](rondo_comm* c, const int32_t* in, int32_t* out, size_t n, rondo_op** op) {
       return rondo_allgather_init(c, in, out, n, RONDO_INT32, nullptr, op);
     }},
    {"allgatherv",
     [](rondo_comm* c, const int32_t* in, int32_t* out, size_t n) {
       return rondo_allgatherv(c, in, n, out, equal_counts(c, n).data(), nullptr, RONDO_INT32, nullptr);
     },
     [](rondo_comm* c, const int32_t* in, int32_t* out, size_t n, rondo_op** op) {
       return rondo_allgatherv_init(c, in, n, out, equal_counts(c, n).data(), nullptr, RONDO_INT32, nullptr, op);
     }},
    {"reduce_scatter",
     [](rondo_comm* c, const int32_t* in, int32_t* out, size_t n) {
       return rondo_reduce_scatter(c, in, out, n, RONDO_INT32, RONDO_SUM, nullptr);
     },
     [](rondo_comm* c, const int32_t* in, int32_t* out, size_t n, rondo_op** op) {
       return rondo_reduce_scatter_init(c, in, out, n, RONDO_INT32, RONDO_SUM, nullptr, op);
     }},
    {"reduce_scatterv",
     [](rondo_comm* c, const int32_t* in, int32_t* out, size_t n) {
       return rondo_reduce_scatterv(c, in, out, equal_counts(c, n).data(), RONDO_INT32, RONDO_SUM, nullptr);
     },
     [](rondo_comm* c, const int32_t* in, int32_t* out, size_t n, rondo_op** op) {
       return rondo_reduce_scatterv_init(c, in, out, equal_counts(c, n).data(), RONDO_INT32, RONDO_SUM, nullptr, op);
     }},
    {"alltoall",
     [](rondo_comm* c, const int32_t* in, int32_t* out, size_t n) {
       return rondo_alltoall(c, in, out, n, RONDO_INT32, nullptr);
     },
     [](rondo_comm* c, const int32_t* in, int32_t* out, size_t n, rondo_op** op) {
       return rondo_alltoall_init(c, in, out, n, RONDO_INT32, nullptr, op);
     }},
    {"alltoallv",
     [](rondo_comm* c, const int32_t* in, int32_t* out, size_t n) {
       const auto counts = equal_counts(c, n);
       return rondo_alltoallv(c, in, counts.data(), nullptr, out, counts.data(), nullptr, RONDO_INT32, nullptr);
     },
     [](rondo_comm* c, const int32_t* in, int32_t* out, size_t n, rondo_op** op) {
       const auto counts = equal_counts(c, n);
       return rondo_alltoallv_init(c, in, counts.data(), nullptr, out, counts.data(), nullptr, RONDO_INT32, nullptr,
                                   op);
     }},
    {"gather",
     [](rondo_comm* c, const int32_t* in, int32_t* out, size_t n) {
       return rondo_gather(c, in, out, n, RONDO_INT32, 0, nullptr);
     },
     [](rondo_comm* c, const int32_t* in, int32_t* out, size_t n, rondo_op** op) {
       return rondo_gather_init(c, in, out, n, RONDO_INT32, 0, nullptr, op);
     }},
    {"scatter",
     [](rondo_comm* c, const int32_t* in, int32_t* out, size_t n) {
       return rondo_scatter(c, in, out, n, RONDO_INT32, 0, nullptr);
     },
     [](rondo_comm* c, const int32_t* in, int32_t* out, size_t n, rondo_op** op) {
       return rondo_scatter_init(c, in, out, n, RONDO_INT32, 0, nullptr, op);
     }},
    {"barrier", [](rondo_comm* c, const int32_t*, int32_t*, size_t) { return rondo_barrier(c, nullptr); },
     [](rondo_comm* c, const int32_t*, int32_t*, size_t, rondo_op** op) { return rondo_barrier_init(c, nullptr, op); }},
};

void fill(std::vector<int32_t>& data, int32_t rank, uint32_t round) {
  for (size_t i = 0; i < data.size(); ++i)
    data[i] = static_cast<int32_t>((i * 2654435761u + static_cast<uint32_t>(rank) * 40503u + round * 9176u) >> 9);
}

// Every form, `rounds` starts with other data each time, blocking calls of the same kind in between.
void repeat_all(rondo_comm* comm, int32_t rank, Notes& notes, size_t count, uint32_t rounds) {
  for (const Form& form : kForms) {
    const size_t all = count * static_cast<size_t>(rondo_world(comm));
    std::vector<int32_t> in(all), out(all), wanted(all);
    rondo_op* op = nullptr;
    const rondo_status made = form.init(comm, in.data(), out.data(), count, &op);
    if (!notes.expect(made == RONDO_OK, fmt::format("rank {}: {}_init: {}", rank, form.name, error_text(comm)))) return;
    notes.expect(rondo_op_test(op) == RONDO_OK && rondo_op_wait(op, -1) == RONDO_OK,
                 fmt::format("rank {}: {}: not at rest before its first start", rank, form.name));
    for (uint32_t round = 0; round < rounds; ++round) {
      fill(in, rank, round);
      out = in;
      const rondo_status started = rondo_start(op);
      rondo_status status = started == RONDO_OK ? rondo_op_wait(op, -1) : started;
      notes.expect(status == RONDO_OK, fmt::format("rank {}: {} start {}: {} {}", rank, form.name, round,
                                                   rondo_status_name(status), error_text(nullptr)));
      wanted = in;
      status = form.blocking(comm, in.data(), wanted.data(), count);
      notes.expect(status == RONDO_OK, fmt::format("rank {}: {}: {}", rank, form.name, error_text(comm)));
      notes.expect(out == wanted, fmt::format("rank {}: {} of {}: start {} differs from the blocking call", rank,
                                              form.name, count, round));
    }
    rondo_op_free(op);
  }
}

rondo_call_options with(double prescale, double postscale) {
  rondo_call_options options = RONDO_CALL_OPTIONS_INIT;
  options.prescale = prescale;
  options.postscale = postscale;
  return options;
}

}  // namespace

TEST_CASE("persistent: every collective, started again and again, gives what the blocking call gives") {
  for (const char* transports : {"shm", "tcp", static_cast<const char*>(nullptr)}) {
    for (const int32_t world : {1, 2, 3, 4, 5, 8}) {
      INFO("world " << world << " over " << (transports == nullptr ? "mixed hosts" : transports));
      CHECK(run_ranks({.world = world, .transports = transports, .fake_hosts = transports == nullptr ? 2 : 0},
                      [](rondo_comm* comm, int32_t rank, Notes& notes) {
                        for (const size_t count : {size_t{0}, size_t{2}, size_t{1001}, size_t{40000}})
                          repeat_all(comm, rank, notes, count, count > 1001 ? 3 : 8);
                      }) == "");
    }
  }
}

TEST_CASE("persistent: more than may run at once, whatever their priorities, freed under way or waited for") {
  constexpr int kOperations = 24;
  for (const char* transports : {"shm", "tcp"}) {
    INFO(transports);
    // Outlive the ranks: the buffers of a detached operation are Rondo's until it has completed.
    std::array<std::array<std::vector<float>, kOperations>, 3> inputs, outputs;
    CHECK(run_ranks({.world = 3, .transports = transports}, [&](rondo_comm* comm, int32_t rank, Notes& notes) {
            auto& in = inputs[rank];
            auto& out = outputs[rank];
            std::vector<rondo_op*> ops(kOperations);
            for (int i = 0; i < kOperations; ++i) {
              const size_t count = i % 3 == 0 ? 5 : i % 3 == 1 ? 5000 : 50000;
              in[i].assign(count, static_cast<float>(i + rank));
              out[i].assign(count, 0);
              rondo_call_options options = RONDO_CALL_OPTIONS_INIT;
              options.priority = (i * (rank + 1)) % 5 - 2;  // each rank has its own
              notes.expect(rondo_allreduce_init(comm, in[i].data(), out[i].data(), count, RONDO_FLOAT32, RONDO_SUM,
                                                &options, &ops[i]) == RONDO_OK,
                           error_text(comm));
            }
            for (int round = 0; round < 4; ++round) {
              for (auto& result : out) std::fill(result.begin(), result.end(), 0.0f);
              for (rondo_op* op : ops) notes.expect(rondo_start(op) == RONDO_OK, error_text(nullptr));
              for (int i = 0; i < kOperations; ++i) {
                const int at = (i * 7 + rank) % kOperations;
                notes.expect(rondo_op_wait(ops[at], -1) == RONDO_OK, error_text(comm));
                const float wanted = static_cast<float>(3 * at + 3);
                notes.expect(out[at].front() == wanted && out[at].back() == wanted,
                             fmt::format("rank {}: operation {} gave {}", rank, at, out[at].front()));
              }
            }
            for (rondo_op* op : ops) notes.expect(rondo_start(op) == RONDO_OK, error_text(nullptr));
            for (rondo_op* op : ops) rondo_op_free(op);  // detached
            notes.expect(rondo_barrier(comm, nullptr) == RONDO_OK, error_text(comm));
          }) == "");
  }
}

TEST_CASE("persistent: a start and its wait allocate nothing") {
  CHECK(run_ranks({.world = 2, .transports = "shm"}, [](rondo_comm* comm, int32_t rank, Notes& notes) {
          for (const size_t count : {size_t{2}, size_t{1000}, size_t{100000}}) {
            std::vector<float> in(count, 1), out(count);
            rondo_op* op = nullptr;
            notes.expect(rondo_allreduce_init(comm, in.data(), out.data(), count, RONDO_FLOAT32, RONDO_SUM, nullptr,
                                              &op) == RONDO_OK,
                         error_text(comm));
            for (const bool counted : {false, true}) {
              rondo_barrier(comm, nullptr);
              const uint64_t before = allocations.load();
              for (int i = 0; i < 20; ++i)
                if (rondo_start(op) != RONDO_OK || rondo_op_wait(op, -1) != RONDO_OK) notes.add(error_text(comm));
              const uint64_t after = allocations.load();
              rondo_barrier(comm, nullptr);
              if (counted)
                notes.expect(after == before,
                             fmt::format("rank {}: {} allocations with {} elements", rank, after - before, count));
            }
            rondo_op_free(op);
          }
        }) == "");
}

TEST_CASE("persistent: inputs and results are scaled, in place and not, in every floating type") {
  const auto scaled = [](rondo_comm* comm, int32_t rank, Notes& notes) {
    const int32_t world = rondo_world(comm);
    const size_t count = 100003, all = count * static_cast<size_t>(world);
    const auto options = with(0.5, 4);
    const double sum = 0.5 * world * 4;  // of inputs 1: exact in every type
    std::vector<double> in(all), out(all);
    for (const bool in_place : {false, true}) {
      for (int round = 0; round < 2; ++round) {
        rondo_op* op = nullptr;
        std::fill(in.begin(), in.end(), 1.0);
        std::fill(out.begin(), out.end(), in_place ? 1.0 : 0.0);
        double* const from = in_place ? out.data() : in.data();
        rondo_allreduce_init(comm, from, out.data(), count, RONDO_FLOAT64, RONDO_SUM, &options, &op);
        if (rondo_start(op) != RONDO_OK || rondo_op_wait(op, -1) != RONDO_OK) notes.add(error_text(comm));
        rondo_op_free(op);
        notes.expect(
            std::all_of(out.begin(), out.begin() + static_cast<ptrdiff_t>(count), [&](double x) { return x == sum; }),
            fmt::format("allreduce: {} is not {}", out[0], sum));
        std::fill(out.begin(), out.end(), in_place ? 1.0 : 0.0);
        double* const part = out.data() + (in_place ? static_cast<size_t>(rank) * count : 0);
        rondo_reduce_scatter_init(comm, from, part, count, RONDO_FLOAT64, RONDO_SUM, &options, &op);
        if (rondo_start(op) != RONDO_OK || rondo_op_wait(op, -1) != RONDO_OK) notes.add(error_text(comm));
        rondo_op_free(op);
        notes.expect(std::all_of(part, part + count, [&](double x) { return x == sum; }),
                     fmt::format("reduce_scatter: {} is not {}", part[0], sum));
        std::fill(out.begin(), out.end(), 1.0);
        rondo_reduce_init(comm, from, rank == 1 % world ? out.data() : nullptr, count, RONDO_FLOAT64, RONDO_SUM,
                          1 % world, &options, &op);
        if (rondo_start(op) != RONDO_OK || rondo_op_wait(op, -1) != RONDO_OK) notes.add(error_text(comm));
        rondo_op_free(op);
        const double wanted = rank == 1 % world ? sum : 1;
        notes.expect(out[0] == wanted && out[count - 1] == wanted, fmt::format("reduce: {} is not {}", out[0], wanted));
        notes.expect(in_place || (in[0] == 1 && in[count - 1] == 1), "an input was changed");
      }
    }
  };
  for (const char* transports : {"shm", "tcp"})
    for (const int32_t world : {1, 2, 3, 5}) {
      INFO("world " << world << " over " << transports);
      CHECK(run_ranks({.world = world, .transports = transports}, scaled) == "");
    }
  struct Narrow {
    rondo_dtype dtype;
    uint16_t one, two;
  };
  for (const Narrow& type : {Narrow{RONDO_FLOAT16, 0x3c00, 0x4000}, Narrow{RONDO_BFLOAT16, 0x3f80, 0x4000},
                             Narrow{RONDO_FLOAT8_E4M3, 0x3838, 0x4040}, Narrow{RONDO_FLOAT8_E5M2, 0x3c3c, 0x4040}}) {
    INFO(rondo_dtype_name(type.dtype));
    CHECK(run_ranks({.world = 2}, [&](rondo_comm* comm, int32_t, Notes& notes) {
            std::vector<uint16_t> data(501, type.one);
            const auto options = with(0.5, 2);
            rondo_op* op = nullptr;
            rondo_allreduce_init(comm, data.data(), data.data(), 501 * 2 / rondo_dtype_size(type.dtype), type.dtype,
                                 RONDO_SUM, &options, &op);
            if (rondo_start(op) != RONDO_OK || rondo_op_wait(op, -1) != RONDO_OK) notes.add(error_text(comm));
            rondo_op_free(op);
            notes.expect(data == std::vector<uint16_t>(501, type.two), fmt::format("got {:#x}", data[0]));
          }) == "");
  }
}

TEST_CASE("persistent: what is wrong is refused with its value, and nothing is started") {
  CHECK(run_ranks({.world = 1}, [](rondo_comm* comm, int32_t, Notes& notes) {
          float data[4] = {};
          const auto refused = [&](rondo_call_options options, rondo_dtype dtype, rondo_redop redop,
                                   rondo_status wanted, const std::string& words) {
            rondo_op* op = reinterpret_cast<rondo_op*>(data);
            const rondo_status status = rondo_allreduce_init(comm, data, data, 1, dtype, redop, &options, &op);
            notes.expect(status == wanted && op == nullptr && error_text(comm).find(words) != std::string::npos,
                         fmt::format("wanted '{}', got {} {}", words, rondo_status_name(status), error_text(comm)));
          };
          refused(with(NAN, 1), RONDO_FLOAT32, RONDO_SUM, RONDO_ERR_INVALID, "prescale is nan");
          refused(with(1, INFINITY), RONDO_FLOAT32, RONDO_SUM, RONDO_ERR_INVALID, "postscale is inf");
          refused(with(0.5, 1), RONDO_INT32, RONDO_SUM, RONDO_ERR_INVALID, "only floating types scale");
          refused(with(1, 1), RONDO_FLOAT32, RONDO_BAND, RONDO_ERR_INVALID, "not defined");
          refused(with(1, 1), static_cast<rondo_dtype>(99), RONDO_SUM, RONDO_ERR_INVALID, "dtype 99");
          rondo_call_options options = RONDO_CALL_OPTIONS_INIT;
          options.size = 3;
          refused(options, RONDO_FLOAT32, RONDO_SUM, RONDO_ERR_INVALID, "call_options.size is 3");
          options = RONDO_CALL_OPTIONS_INIT;
          options.determinism = 7;
          refused(options, RONDO_FLOAT32, RONDO_SUM, RONDO_ERR_INVALID, "determinism is 7");
          options.determinism = 3;
          refused(options, RONDO_FLOAT32, RONDO_SUM, RONDO_ERR_UNSUPPORTED, "A3");
          options = RONDO_CALL_OPTIONS_INIT;
          options.timeout_ns = -5;
          refused(options, RONDO_FLOAT32, RONDO_SUM, RONDO_ERR_INVALID, "timeout_ns is -5");
          options = RONDO_CALL_OPTIONS_INIT;
          options.algorithm = "pentagram";
          refused(options, RONDO_FLOAT32, RONDO_SUM, RONDO_ERR_INVALID, "pentagram");
          options.algorithm = "allreduce:ring";
          options.determinism = 2;
          refused(options, RONDO_FLOAT32, RONDO_SUM, RONDO_ERR_UNSUPPORTED, "ring");
          rondo_op* op = nullptr;
          const auto scales = with(2, 1);
          notes.expect(rondo_allgather_init(comm, data, data, 1, RONDO_FLOAT32, &scales, &op) == RONDO_ERR_INVALID &&
                           error_text(comm).find("only reductions scale") != std::string::npos,
                       "allgather: " + error_text(comm));
          notes.expect(rondo_barrier_init(comm, nullptr, nullptr) == RONDO_ERR_INVALID, "op NULL");
          notes.expect(rondo_start(nullptr) == RONDO_ERR_INVALID, "start of NULL");
          rondo_barrier(comm, &op);
          notes.expect(
              rondo_start(op) == RONDO_ERR_INVALID && error_text(nullptr).find("not persistent") != std::string::npos,
              "start of an ordinary operation: " + error_text(nullptr));
          rondo_op_wait(op, -1);
          rondo_op_free(op);
        }) == "");
}

TEST_CASE("persistent: one call at a time; a communicator that has gone or broken is named") {
  CHECK(run_ranks({.world = 2}, [](rondo_comm* comm, int32_t rank, Notes& notes) {
          float data = 1;
          rondo_op *op = nullptr, *split_op = nullptr;
          rondo_comm* part = nullptr;
          rondo_allreduce_init(comm, &data, &data, 1, RONDO_FLOAT32, RONDO_SUM, nullptr, &op);
          if (rank == 0) {
            notes.expect(rondo_start(op) == RONDO_OK, error_text(nullptr));
            notes.expect(rondo_op_wait(op, 1000000) == RONDO_IN_PROGRESS, "it completed alone");
            notes.expect(rondo_start(op) == RONDO_ERR_INVALID &&
                             error_text(nullptr).find("still under way") != std::string::npos,
                         "a second start: " + error_text(nullptr));
          }
          const std::string go = rank == 0 ? "go" : "??";
          char word[3] = {};
          if (rank == 0) {
            rondo_send(comm, go.data(), 2, RONDO_UINT8, 1, nullptr);
          } else {
            rondo_recv(comm, word, 2, RONDO_UINT8, 0, nullptr);
            notes.expect(rondo_start(op) == RONDO_OK, error_text(nullptr));
          }
          notes.expect(rondo_op_wait(op, -1) == RONDO_OK && data == 2, fmt::format("data is {}", data));
          rondo_split(comm, 0, 0, &part);
          rondo_allreduce_init(part, &data, &data, 1, RONDO_FLOAT32, RONDO_SUM, nullptr, &split_op);
          rondo_destroy(part);
          notes.expect(
              rondo_start(split_op) == RONDO_ERR_ABORTED && error_text(nullptr).find("destroyed") != std::string::npos,
              "after destroy: " + error_text(nullptr));
          rondo_op_free(split_op);
          rondo_barrier(comm, nullptr);
          if (rank == 1) rondo_abort(comm, "enough");
          while (rondo_health(comm) == RONDO_OK) rondo_op_test(op);
          notes.expect(rondo_start(op) == RONDO_ERR_ABORTED && error_text(nullptr).find("enough") != std::string::npos,
                       "after an abort: " + error_text(nullptr));
          rondo_op_free(op);
        }) == "");
}

TEST_CASE("persistent: options that ranks must share are compared, and names stand in time-outs") {
  CHECK(run_ranks({.world = 2}, [](rondo_comm* comm, int32_t rank, Notes& notes) {
          float data = 1;
          rondo_op* op = nullptr;
          const auto options = with(rank == 0 ? 0.5 : 0.25, 1);
          rondo_allreduce_init(comm, &data, &data, 1, RONDO_FLOAT32, RONDO_SUM, &options, &op);
          const rondo_status started = rondo_start(op);
          const rondo_status status = started == RONDO_OK ? rondo_op_wait(op, -1) : started;
          notes.expect(status == RONDO_ERR_MISMATCH && error_text(comm).find("settings") != std::string::npos,
                       fmt::format("{} {}", rondo_status_name(status), error_text(comm)));
          rondo_op_free(op);
        }) == "");
  CHECK(run_ranks({.world = 2}, [](rondo_comm* comm, int32_t rank, Notes& notes) {
          float data = 1;
          rondo_op* op = nullptr;
          rondo_call_options options = RONDO_CALL_OPTIONS_INIT;
          options.name = "layer4.bias";
          options.timeout_ns = 50'000'000;
          rondo_allreduce_init(comm, &data, &data, 1, RONDO_FLOAT32, RONDO_SUM, &options, &op);
          if (rank == 0) {
            notes.expect(rondo_start(op) == RONDO_OK, error_text(nullptr));
            notes.expect(rondo_op_wait(op, -1) == RONDO_ERR_TIMEOUT, "no time-out");
          }
          while (rondo_health(comm) == RONDO_OK) rondo_op_test(op);
          notes.expect(error_text(comm).find("\"layer4.bias\" made no progress") != std::string::npos &&
                           error_text(comm).find("waits for rank 1") != std::string::npos,
                       error_text(comm));
          rondo_op_free(op);
        }) == "");
}
