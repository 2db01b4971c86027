// Ranks that make different calls: every class of difference, every odd rank, 2 and 4 ranks, shm and tcp. Every rank
// gets MISMATCH with both calls in the text, at the call or at its next one, before the 2 s time-out of these jobs
// would say TIMEOUT instead.
#include <catch2/catch.hpp>

#include <chrono>

#include "ranks.h"

using namespace rondo_test;

namespace {

constexpr int64_t kWithinMs = 2000;

using Call = std::function<rondo_status(rondo_comm*, std::byte* in, std::byte* out)>;

Call allreduce_of(size_t count, rondo_dtype dtype, rondo_redop redop = RONDO_SUM) {
  return [=](rondo_comm* c, std::byte* in, std::byte* out) {
    return rondo_allreduce(c, in, out, count, dtype, redop, nullptr);
  };
}

Call reduce_of(size_t count, int32_t root) {
  return [=](rondo_comm* c, std::byte* in, std::byte* out) {
    return rondo_reduce(c, in, out, count, RONDO_INT32, RONDO_SUM, root, nullptr);
  };
}

Call broadcast_of(size_t count, int32_t root) {
  return [=](rondo_comm* c, std::byte* in, std::byte*) {
    return rondo_broadcast(c, in, count, RONDO_FLOAT32, root, nullptr);
  };
}

Call allgather_of(size_t count) {
  return [=](rondo_comm* c, std::byte* in, std::byte* out) {
    return rondo_allgather(c, in, out, count, RONDO_INT32, nullptr);
  };
}

Call both(Call first, Call second) {
  return [=](rondo_comm* c, std::byte* in, std::byte* out) {
    const rondo_status status = first(c, in, out);
    return status != RONDO_OK ? status : second(c, in, out);
  };
}

struct Class {
  const char* what;
  Call common, odd;  // the call that all make, and the odd rank's; buffers are large enough for both
  const char *common_words, *odd_words;
};

const std::vector<Class>& classes() {
  static const Call none = [](rondo_comm*, std::byte*, std::byte*) { return RONDO_OK; };
  static const std::vector<Class> all = {
      {"collective", allreduce_of(100, RONDO_FLOAT32), broadcast_of(100, 0), "allreduce(count 100, float32, sum)",
       "broadcast(count 100, float32, root 0)"},
      {"count", allreduce_of(100, RONDO_FLOAT32), allreduce_of(101, RONDO_FLOAT32), "count 100", "count 101"},
      {"count that changes the algorithm", allreduce_of(1, RONDO_FLOAT32), allreduce_of(500000, RONDO_FLOAT32),
       "count 1,", "count 500000"},
      {"count of a large call", allreduce_of(100'000, RONDO_FLOAT32), allreduce_of(100'001, RONDO_FLOAT32),
       "count 100000", "count 100001"},
      {"zero count on one rank", allgather_of(50), allgather_of(0), "count 50", "count 0"},
      {"dtype of the same size", allreduce_of(5000, RONDO_FLOAT32), allreduce_of(5000, RONDO_INT32), "float32",
       "int32"},
      {"operator", allreduce_of(64, RONDO_INT64), allreduce_of(64, RONDO_INT64, RONDO_MAX), "int64, sum", "int64, max"},
      {"root", broadcast_of(100, 0), broadcast_of(100, 1), "root 0", "root 1"},
      {"root of a reduce", reduce_of(3000, 1), reduce_of(3000, 0), "root 1", "root 0"},
      {"order", both(allreduce_of(10, RONDO_INT32), allgather_of(10)),
       both(allgather_of(10), allreduce_of(10, RONDO_INT32)), "allreduce(count 10", "allgather(count 10"},
      {"a missing call", allreduce_of(10, RONDO_INT32), none, "allreduce(count 10", "barrier()"},
  };
  return all;
}

void differ(const char* transports, int32_t world) {
  uint32_t ran = 0;
  for (const Class& c : classes()) {
    for (int32_t odd = 0; odd < world; ++odd) {
      INFO(c.what << ", rank " << odd << " of " << world << " is the odd one, over " << transports);
      const std::string wrong =
          run_ranks({.world = world, .transports = transports, .timeout_ms = kWithinMs},
                    [&](rondo_comm* comm, int32_t rank, Notes& notes) {
                      std::vector<std::byte> in(4 << 20), out(4 << 20);
                      // Ranks that are ahead may break the communicator while this one still leaves the first barrier.
                      rondo_status status = rondo_barrier(comm, nullptr);
                      if (status == RONDO_OK) status = (rank == odd ? c.odd : c.common)(comm, in.data(), out.data());
                      std::string where = "at the call";
                      for (int i = 0; i < 2 && status == RONDO_OK; ++i) {
                        status = rondo_barrier(comm, nullptr);
                        where = "at a later call";
                      }
                      const std::string text = error_text(comm);
                      const bool named =
                          text.find(c.common_words) != std::string::npos && text.find(c.odd_words) != std::string::npos;
                      notes.expect(status == RONDO_ERR_MISMATCH && named,
                                   fmt::format("rank {} {}: {} '{}'", rank, where, rondo_status_name(status), text));
                      notes.expect(rondo_health(comm) == RONDO_ERR_MISMATCH,
                                   fmt::format("rank {}: health is {}", rank, rondo_status_name(rondo_health(comm))));
                    });
      CHECK(wrong == "");
      ++ran;
    }
  }
  WARN("cases: " << ran);
}

}  // namespace

TEST_CASE("mismatch: every class and odd rank, 2 ranks, shm") { differ("shm", 2); }
TEST_CASE("mismatch: every class and odd rank, 2 ranks, tcp") { differ("tcp", 2); }
TEST_CASE("mismatch: every class and odd rank, 4 ranks, shm") { differ("shm", 4); }
TEST_CASE("mismatch: every class and odd rank, 4 ranks, tcp") { differ("tcp", 4); }

TEST_CASE("mismatch: a rank that leaves while others call is named with both facts") {
  for (const char* transports : {"shm", "tcp"}) {
    const std::string wrong =
        run_ranks({.world = 3, .transports = transports, .timeout_ms = kWithinMs},
                  [&](rondo_comm* comm, int32_t rank, Notes& notes) {
                    int32_t value = rank, sum = 0;
                    if (rank == 2) return;
                    const rondo_status status = rondo_allreduce(comm, &value, &sum, 1, RONDO_INT32, RONDO_SUM, nullptr);
                    const std::string text = error_text(comm);
                    notes.expect(status == RONDO_ERR_MISMATCH && text.find("rank 2 destroyed") != std::string::npos &&
                                     text.find("allreduce(count 1") != std::string::npos,
                                 fmt::format("rank {}: {} '{}'", rank, rondo_status_name(status), text));
                  });
    CHECK(wrong == "");
  }
}
