// The life of operations, groups, splits and communicators, and what wrong calls are told. Ranks are threads.
#include <catch2/catch.hpp>

#include <sys/resource.h>
#include <sys/wait.h>
#include <time.h>

#include <cstring>

#include "ranks.h"

using namespace rondo_test;

namespace {

std::string said(rondo_comm* comm, rondo_status status) {
  return fmt::format("{} '{}'", rondo_status_name(status), error_text(comm));
}

void pause_ms(int64_t ms) {
  const timespec t{.tv_sec = ms / 1000, .tv_nsec = ms % 1000 * 1000000};
  nanosleep(&t, nullptr);
}

double thread_cpu_seconds() {
  timespec t;
  clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &t);
  return static_cast<double>(t.tv_sec) + static_cast<double>(t.tv_nsec) * 1e-9;
}

}  // namespace

TEST_CASE("operations: a wait that expires breaks nothing, and free detaches") {
  for (const char* transports : {"shm", "tcp"}) {
    std::atomic<bool> seen{false};
    // Outlive the ranks: the buffers of a detached operation are Rondo's until it has completed.
    const std::vector<float> in(5000, 1.0f);
    std::vector<float> lates[2] = {std::vector<float>(5000), std::vector<float>(5000)};
    const std::string wrong =
        run_ranks({.world = 2, .transports = transports}, [&](rondo_comm* comm, int32_t rank, Notes& notes) {
          std::vector<float> out(5000);
          std::vector<float>& late = lates[rank];
          while (rank == 1 && !seen.load()) pause_ms(1);
          rondo_op* op = nullptr;
          rondo_status status = rondo_allreduce(comm, in.data(), out.data(), in.size(), RONDO_FLOAT32, RONDO_SUM, &op);
          notes.expect(status == RONDO_OK && op != nullptr, "start: " + said(comm, status));
          if (rank == 0) {
            notes.expect(rondo_op_wait(op, 1000000) == RONDO_IN_PROGRESS, "the wait for an absent rank did not expire");
            notes.expect(rondo_op_test(op) == RONDO_IN_PROGRESS, "the operation ended without its peer");
            seen.store(true);
          }
          notes.expect(rondo_op_wait(op, -1) == RONDO_OK, "wait: " + said(comm, rondo_op_wait(op, 0)));
          notes.expect(rondo_op_test(op) == RONDO_OK && rondo_op_wait(op, 0) == RONDO_OK, "the status did not stay");
          notes.expect(out[0] == 2.0f && out[4999] == 2.0f, "wrong sum");
          rondo_op_free(op);
          rondo_op* detached = nullptr;
          status = rondo_allreduce(comm, in.data(), late.data(), in.size(), RONDO_FLOAT32, RONDO_SUM, &detached);
          notes.expect(status == RONDO_OK, "detached: " + said(comm, status));
          rondo_op_free(detached);
          notes.expect(rondo_barrier(comm, nullptr) == RONDO_OK, "barrier: " + error_text(comm));
          notes.expect(rondo_barrier(comm, nullptr) == RONDO_OK, "barrier: " + error_text(comm));
        });
    CHECK(wrong == "");
  }
}

TEST_CASE("operations: many in flight complete in any order of waiting, by the progress thread alone too") {
  const std::string wrong = run_ranks({.world = 3}, [](rondo_comm* comm, int32_t rank, Notes& notes) {
    constexpr int kOps = 40;
    std::vector<std::vector<int64_t>> in(kOps), out(kOps);
    std::vector<rondo_op*> ops(kOps);
    for (int i = 0; i < kOps; ++i) {
      in[i].assign(static_cast<size_t>(1 + i * 97), rank + i);
      out[i].resize(in[i].size());
      const rondo_status status =
          rondo_allreduce(comm, in[i].data(), out[i].data(), in[i].size(), RONDO_INT64, RONDO_SUM, &ops[i]);
      notes.expect(status == RONDO_OK, said(comm, status));
    }
    // Nobody waits: the progress threads must bring the first to its end.
    for (int tries = 0; tries < 2000 && rondo_health(comm) == RONDO_OK && out[0][0] != 3; ++tries) pause_ms(1);
    for (int i = kOps - 1; i >= 0; --i) {
      const rondo_status status = rondo_op_wait(ops[i], -1);
      notes.expect(status == RONDO_OK && out[i].back() == 3 + 3 * i, fmt::format("op {}: {}", i, said(comm, status)));
      rondo_op_free(ops[i]);
    }
  });
  CHECK(wrong == "");
}

TEST_CASE("operations: destroy ends what is outstanding as aborted, and the handle stays valid") {
  const std::string wrong = run_ranks({.world = 1}, [](rondo_comm*, int32_t, Notes&) {});
  CHECK(wrong == "");
  const std::string name = fresh_name();
  Notes notes;
  rondo_op* kept = nullptr;
  int value = 1, sum = 0;
  std::thread other([&] {
    rondo_comm* comm = join({.world = 2}, name, 1, notes);
    pause_ms(50);
    rondo_destroy(comm);
  });
  rondo_comm* comm = join({.world = 2}, name, 0, notes);
  REQUIRE(comm != nullptr);
  REQUIRE(rondo_allreduce(comm, &value, &sum, 1, RONDO_INT32, RONDO_SUM, &kept) == RONDO_OK);
  CHECK(rondo_destroy(comm) == RONDO_OK);
  CHECK(rondo_op_test(kept) == RONDO_ERR_ABORTED);
  CHECK(rondo_op_wait(kept, -1) == RONDO_ERR_ABORTED);
  CHECK(rondo_op_free(kept) == RONDO_OK);
  other.join();
  CHECK(notes.all() == "");
}

TEST_CASE("point to point: tags, any sender, self, groups, wrong lengths") {
  for (const char* transports : {"shm", "tcp"}) {
    const std::string wrong = run_ranks({.world = 3, .transports = transports}, [](rondo_comm* comm, int32_t rank,
                                                                                   Notes& notes) {
      const int32_t next = (rank + 1) % 3, previous = (rank + 2) % 3;
      std::vector<int32_t> out(100000, rank), in(100000, -1);
      // Any order of sends and receives is fine inside a group.
      rondo_group_begin(comm);
      rondo_send(comm, out.data(), out.size(), RONDO_INT32, next, nullptr);
      rondo_recv(comm, in.data(), in.size(), RONDO_INT32, previous, nullptr);
      rondo_status status = rondo_group_end(comm);
      notes.expect(status == RONDO_OK && in[0] == previous && in[99999] == previous, "ring: " + said(comm, status));
      // Tags may be received in another order than sent.
      int64_t a = rank * 10 + 1, b = rank * 10 + 2, first = 0, second = 0;
      rondo_op* ops[2];
      rondo_send_tag(comm, &a, 1, RONDO_INT64, next, 1, &ops[0]);
      rondo_send_tag(comm, &b, 1, RONDO_INT64, next, int64_t{1} << 40, &ops[1]);
      status = rondo_recv_tag(comm, &second, 1, RONDO_INT64, previous, int64_t{1} << 40, nullptr);
      notes.expect(status == RONDO_OK && second == previous * 10 + 2, "tag: " + said(comm, status));
      status = rondo_recv_tag(comm, &first, 1, RONDO_INT64, previous, 1, nullptr);
      notes.expect(status == RONDO_OK && first == previous * 10 + 1, "tag: " + said(comm, status));
      for (rondo_op* op : ops) {
        notes.expect(rondo_op_wait(op, -1) == RONDO_OK, "send");
        rondo_op_free(op);
      }
      // Rank 0 hears from anyone; everyone talks to itself.
      if (rank == 0) {
        int32_t heard[2] = {-1, -1};
        for (int32_t& who : heard) rondo_recv_tag(comm, &who, 1, RONDO_INT32, RONDO_ANY, 7, nullptr);
        notes.expect(heard[0] + heard[1] == 3 && heard[0] != heard[1], fmt::format("any: {} {}", heard[0], heard[1]));
      } else {
        rondo_send_tag(comm, &rank, 1, RONDO_INT32, 0, 7, nullptr);
      }
      int32_t self = -1;
      rondo_op* mine = nullptr;
      rondo_send_tag(comm, &rank, 1, RONDO_INT32, rank, 9, &mine);
      status = rondo_recv_tag(comm, &self, 1, RONDO_INT32, rank, 9, nullptr);
      notes.expect(status == RONDO_OK && self == rank && rondo_op_wait(mine, -1) == RONDO_OK,
                   "self: " + said(comm, status));
      rondo_op_free(mine);
      notes.expect(rondo_barrier(comm, nullptr) == RONDO_OK, "barrier: " + error_text(comm));
      // Another length is a mismatch for the receiver, never a truncation.
      if (rank == 0) {
        rondo_op* op = nullptr;
        rondo_send(comm, out.data(), 10, RONDO_INT32, 1, &op);
        rondo_op_wait(op, -1);
        rondo_op_free(op);
      } else if (rank == 1) {
        status = rondo_recv(comm, in.data(), 11, RONDO_INT32, 0, nullptr);
        const std::string text = error_text(comm);
        notes.expect(status == RONDO_ERR_MISMATCH && text.find("44 bytes") != std::string::npos &&
                         text.find("40 bytes") != std::string::npos,
                     "length: " + said(comm, status));
      }
    });
    CHECK(wrong == "");
  }
}

TEST_CASE("split: colors, keys, no part, and many splits of splits") {
  const std::string wrong = run_ranks({.world = 5}, [](rondo_comm* comm, int32_t rank, Notes& notes) {
    rondo_comm* part = nullptr;
    // Even ranks, in reverse; rank 3 takes no part.
    rondo_status status = rondo_split(comm, rank == 3 ? -1 : rank % 2, -rank, &part);
    notes.expect(status == RONDO_OK, "split: " + said(comm, status));
    if (rank == 3) {
      notes.expect(part == nullptr, "a part for no color");
    } else {
      const int32_t world = rank % 2 == 0 ? 3 : 1;
      notes.expect(rondo_world(part) == world && rondo_rank(part) == (world == 3 ? (4 - rank) / 2 : 0),
                   "rank or world");
      int32_t value = rank, sum = 0;
      status = rondo_allreduce(part, &value, &sum, 1, RONDO_INT32, RONDO_SUM, nullptr);
      notes.expect(status == RONDO_OK && sum == (rank % 2 == 0 ? 6 : 1), "sum: " + said(part, status));
    }
    std::vector<rondo_comm*> many;
    for (int i = 0; i < 40; ++i) {
      rondo_comm* next = nullptr;
      status = rondo_split(many.empty() ? comm : many.back(), 0, rank, &next);
      if (!notes.expect(status == RONDO_OK, fmt::format("split {}: {}", i, said(comm, status)))) break;
      many.push_back(next);
      std::vector<int32_t> in(3000, 1), out(3000);
      status = rondo_allreduce(next, in.data(), out.data(), in.size(), RONDO_INT32, RONDO_SUM, nullptr);
      notes.expect(status == RONDO_OK && out[2999] == 5, "sum: " + said(next, status));
    }
    for (rondo_comm* each : many) rondo_destroy(each);
    rondo_destroy(part);
    notes.expect(rondo_barrier(comm, nullptr) == RONDO_OK, "barrier: " + error_text(comm));
  });
  CHECK(wrong == "");
}

TEST_CASE("two communicators used in opposite order complete when the calls do not block") {
  for (const char* transports : {"shm", "tcp"}) {
    const std::string wrong =
        run_ranks({.world = 2, .transports = transports}, [](rondo_comm* comm, int32_t rank, Notes& notes) {
          rondo_comm* other = nullptr;
          rondo_split(comm, 0, rank, &other);
          // More than a rank's slots hold, so that nothing passes by mere buffering.
          std::vector<float> in(8 << 20, 1.0f), a(8 << 20), b(8 << 20);
          rondo_comm* order[2] = {rank == 0 ? comm : other, rank == 0 ? other : comm};
          rondo_op* ops[2];
          rondo_allreduce(order[0], in.data(), a.data(), in.size(), RONDO_FLOAT32, RONDO_SUM, &ops[0]);
          rondo_allreduce(order[1], in.data(), b.data(), in.size(), RONDO_FLOAT32, RONDO_SUM, &ops[1]);
          for (rondo_op* op : ops) {
            notes.expect(rondo_op_wait(op, -1) == RONDO_OK, "wait: " + error_text(comm));
            rondo_op_free(op);
          }
          notes.expect(a.back() == 2.0f && b.back() == 2.0f, "wrong sum");
          rondo_destroy(other);
        });
    CHECK(wrong == "");
  }
}

TEST_CASE("abort: from another thread, any number of times, ends every rank's call with the reason") {
  for (const char* transports : {"shm", "tcp"}) {
    const std::string wrong =
        run_ranks({.world = 3, .transports = transports}, [](rondo_comm* comm, int32_t rank, Notes& notes) {
          std::thread aborter;
          if (rank == 2) {
            aborter = std::thread([comm] {
              pause_ms(50);
              for (int i = 0; i < 3; ++i) rondo_abort(comm, "the disk is full");
            });
          }
          int32_t value = 0;
          const rondo_status status =
              rank == 2 ? rondo_recv(comm, &value, 1, RONDO_INT32, 0, nullptr) : rondo_barrier(comm, nullptr);
          const std::string text = error_text(comm);
          notes.expect(status == RONDO_ERR_ABORTED && text.find("the disk is full") != std::string::npos &&
                           text.find("rank 2") != std::string::npos,
                       fmt::format("rank {}: {}", rank, said(comm, status)));
          if (aborter.joinable()) aborter.join();
          notes.expect(rondo_barrier(comm, nullptr) == RONDO_ERR_ABORTED, "a later call did not fail at once");
          notes.expect(rondo_health(comm) == RONDO_ERR_ABORTED, "health");
        });
    CHECK(wrong == "");
  }
}

TEST_CASE("wrong calls: each names the argument, its value and what was expected") {
  const std::string wrong = run_ranks({.world = 1}, [](rondo_comm* comm, int32_t, Notes& notes) {
    std::vector<float> buffer(100);
    float* b = buffer.data();
    const auto refused = [&](rondo_status status, rondo_status expected, std::initializer_list<const char*> words) {
      const std::string text = error_text(comm);
      for (const char* word : words)
        notes.expect(text.find(word) != std::string::npos, fmt::format("'{}' lacks '{}'", text, word));
      notes.expect(status == expected, said(comm, status));
    };
    refused(rondo_allreduce(comm, nullptr, b, 3, RONDO_FLOAT32, RONDO_SUM, nullptr), RONDO_ERR_INVALID,
            {"in is NULL", "12 bytes"});
    refused(rondo_allreduce(comm, b, nullptr, 3, RONDO_FLOAT32, RONDO_SUM, nullptr), RONDO_ERR_INVALID,
            {"out is NULL"});
    refused(rondo_allreduce(comm, b, b + 1, 3, RONDO_FLOAT32, RONDO_SUM, nullptr), RONDO_ERR_INVALID, {"overlap"});
    refused(rondo_allreduce(comm, b, b, SIZE_MAX / 2, RONDO_FLOAT32, RONDO_SUM, nullptr), RONDO_ERR_INVALID,
            {"more than memory"});
    refused(rondo_allreduce(comm, b, b, 1, static_cast<rondo_dtype>(77), RONDO_SUM, nullptr), RONDO_ERR_INVALID,
            {"dtype 77", "13"});
    refused(rondo_allreduce(comm, b, b, 1, RONDO_FLOAT32, static_cast<rondo_redop>(99), nullptr), RONDO_ERR_INVALID,
            {"redop 99"});
    refused(rondo_allreduce(comm, b, b, 1, RONDO_FLOAT32, RONDO_BAND, nullptr), RONDO_ERR_INVALID, {"band", "float32"});
    refused(rondo_broadcast(comm, b, 1, RONDO_FLOAT32, 1, nullptr), RONDO_ERR_INVALID, {"root 1", "1 ranks"});
    refused(rondo_send(comm, b, 1, RONDO_FLOAT32, 5, nullptr), RONDO_ERR_INVALID, {"peer 5"});
    refused(rondo_recv_tag(comm, b, 1, RONDO_FLOAT32, 0, -4, nullptr), RONDO_ERR_INVALID, {"tag -4"});
    refused(rondo_group_end(comm), RONDO_ERR_INVALID, {"without"});
    int on_stack = 0;
    refused(rondo_free(comm, &on_stack), RONDO_ERR_INVALID, {"free"});
    notes.expect(rondo_allreduce(nullptr, b, b, 1, RONDO_FLOAT32, RONDO_SUM, nullptr) == RONDO_ERR_INVALID,
                 "null comm");
    notes.expect(rondo_allreduce(comm, nullptr, nullptr, 0, RONDO_FLOAT32, RONDO_SUM, nullptr) == RONDO_OK,
                 "zero count");
  });
  CHECK(wrong == "");
  rondo_options options = RONDO_OPTIONS_INIT;
  rondo_comm* comm = nullptr;
  options.world = 0;
  CHECK(rondo_init(&options, &comm) == RONDO_ERR_INVALID);
  CHECK_THAT(error_text(nullptr), Catch::Matchers::Contains("world is 0"));
  options.world = 2;
  options.rank = 2;
  CHECK(rondo_init(&options, &comm) == RONDO_ERR_INVALID);
  options.rank = 0;
  options.algorithm = "allreduce:nonsense";
  options.rendezvous = "inproc://never";
  CHECK(rondo_init(&options, &comm) == RONDO_ERR_INVALID);
  CHECK_THAT(error_text(nullptr), Catch::Matchers::Contains("nonsense") && Catch::Matchers::Contains("ring"));
}

TEST_CASE("forced choices: what is impossible is unsupported, never ignored") {
  const std::string wrong =
      run_ranks({.world = 2, .algorithm = "allreduce:oneshot"}, [](rondo_comm* comm, int32_t, Notes& notes) {
        std::vector<float> in(5000, 1.0f), out(5000);
        const rondo_status status =
            rondo_allreduce(comm, in.data(), out.data(), 5000, RONDO_FLOAT32, RONDO_SUM, nullptr);
        notes.expect(status == RONDO_ERR_UNSUPPORTED && error_text(comm).find("16384") != std::string::npos,
                     said(comm, status));
        notes.expect(rondo_allreduce(comm, in.data(), out.data(), 10, RONDO_FLOAT32, RONDO_SUM, nullptr) == RONDO_OK,
                     error_text(comm));
        char plan[600];
        rondo_explain(comm, "allreduce", 64, RONDO_FLOAT32, plan, sizeof plan);
        notes.expect(std::string(plan).find("oneshot") != std::string::npos, plan);
      });
  CHECK(wrong == "");
}

TEST_CASE("a fork gets a clear error and leaves its parent unaffected") {
  const std::string wrong = run_ranks({.world = 1}, [](rondo_comm* comm, int32_t, Notes& notes) {
    const pid_t child = fork();
    if (child == 0) {
      float value = 1;
      const bool refused =
          rondo_allreduce(comm, &value, &value, 1, RONDO_FLOAT32, RONDO_SUM, nullptr) == RONDO_ERR_UNSUPPORTED;
      _exit(refused ? 0 : 1);
    }
    int status = -1;
    waitpid(child, &status, 0);
    notes.expect(WIFEXITED(status) && WEXITSTATUS(status) == 0, "the child was not refused");
    notes.expect(rondo_barrier(comm, nullptr) == RONDO_OK, "the parent was affected");
  });
  CHECK(wrong == "");
}

TEST_CASE("waiting: a rank that waits long leaves the processor to others") {
  double busy = 0;
  constexpr int64_t kWaitMs = 1500;
  const std::string wrong = run_ranks({.world = 2}, [&](rondo_comm* comm, int32_t rank, Notes& notes) {
    notes.expect(rondo_barrier(comm, nullptr) == RONDO_OK, "barrier");
    const double before = thread_cpu_seconds();
    if (rank == 1) pause_ms(kWaitMs);
    notes.expect(rondo_barrier(comm, nullptr) == RONDO_OK, "barrier");
    if (rank == 0) busy = thread_cpu_seconds() - before;
  });
  CHECK(wrong == "");
  WARN("waiting took " << 100 * busy / (kWaitMs / 1000.0) << " % of a core");
  CHECK(busy < 0.05 * kWaitMs / 1000.0);
}
