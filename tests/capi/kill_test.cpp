// Jobs of 4 processes of which one is killed with SIGKILL at a random moment, the join included: every survivor
// finishes or returns an error that names the dead or missing rank before the deadline, and nothing is left behind.
// KILL_TEST_SEED repeats a run; KILL_TEST_JOBS sets the number of jobs; KILL_TEST_WITHIN_US the latest moment (20000
// keeps to the join).
#include <catch2/catch.hpp>

#include <dirent.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <time.h>

#include <cstdlib>
#include <random>
#include <set>

#include "ranks.h"

using namespace rondo_test;

namespace {

constexpr int kRanks = 4;
constexpr int kFinished = 0, kNamedIt = 3, kWrongWords = 4, kWrongResult = 5;
constexpr int kDeadlineS = 20;
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
constexpr int kJobs = 15;
#else
constexpr int kJobs = 100;
#endif

struct Shared {
  std::atomic<int> joined;
  char text[kRanks][512];
};

std::set<std::string> names_in(const char* folder) {
  std::set<std::string> names;
  DIR* dir = opendir(folder);
  if (dir == nullptr) return names;
  while (const dirent* entry = readdir(dir)) {
    const std::string name = entry->d_name;
    if (name.find("rondo") != std::string::npos) names.insert(name);
  }
  closedir(dir);
  return names;
}

int run_rank(Shared& shared, int rank, int victim, const std::string& rendezvous, const char* transports,
             uint64_t seed) {
  rondo_options options = RONDO_OPTIONS_INIT;
  options.rank = rank;
  options.world = kRanks;
  options.rendezvous = rendezvous.c_str();
  options.transports = transports;
  options.config = "RONDO_JOIN_TIMEOUT_MS=4000;RONDO_TIMEOUT_MS=8000";
  rondo_comm* comm = nullptr;
  rondo_status status = rondo_init(&options, &comm);
  if (status == RONDO_OK) {
    shared.joined.fetch_add(1);
    std::mt19937_64 random(seed);
    // Every other job on memory that the others read and write where it lies.
    std::vector<float> own_in(200000), own_out(200000);
    float *in = own_in.data(), *out = own_out.data();
    void *shared_in = nullptr, *shared_out = nullptr;
    if (seed % 2 == 1 && rondo_alloc(comm, own_in.size() * sizeof(float), &shared_in) == RONDO_OK &&
        rondo_alloc(comm, own_out.size() * sizeof(float), &shared_out) == RONDO_OK) {
      in = static_cast<float*>(shared_in);
      out = static_cast<float*>(shared_out);
    }
    for (int i = 0; i < 400 && status == RONDO_OK; ++i) {
      const size_t count = random() % 3 == 0 ? random() % 200000 : random() % 300;
      for (size_t k = 0; k < count; ++k) in[k] = static_cast<float>(rank + 1);
      if (random() % 4 == 0) {
        status = rondo_broadcast(comm, in, count, RONDO_FLOAT32, static_cast<int32_t>(random() % kRanks), nullptr);
      } else {
        status = rondo_allreduce(comm, in, out, count, RONDO_FLOAT32, RONDO_SUM, nullptr);
        for (size_t k = 0; status == RONDO_OK && k < count; ++k)
          if (out[k] != 10.0f) return kWrongResult;
      }
    }
  }
  const std::string text = status == RONDO_OK ? "" : error_text(comm);
  rondo_destroy(comm);
  if (status == RONDO_OK) return kFinished;
  snprintf(shared.text[rank], sizeof shared.text[rank], "%s: %s", rondo_status_name(status), text.c_str());
  return text.find(fmt::format("rank {}", victim)) != std::string::npos ||
                 (text.find("rank") != std::string::npos && text.find(fmt::format("{}", victim)) != std::string::npos)
             ? kNamedIt
             : kWrongWords;
}

void sleep_us(int64_t us) {
  const timespec t{.tv_sec = us / 1000000, .tv_nsec = us % 1000000 * 1000};
  nanosleep(&t, nullptr);
}

// Exit statuses of the ranks; SIGKILL for those that outlived the deadline.
std::vector<int> run_job(Shared& shared, int victim, int64_t after_us, const char* transports, uint64_t seed) {
  const std::string rendezvous = fmt::format("unix://rondo-kill-{}-{}", getpid(), seed);
  std::vector<pid_t> pids;
  for (int rank = 0; rank < kRanks; ++rank) {
    const pid_t pid = fork();
    if (pid == 0) _exit(run_rank(shared, rank, victim, rendezvous, transports, seed));
    pids.push_back(pid);
  }
  sleep_us(after_us);
  kill(pids[static_cast<size_t>(victim)], SIGKILL);
  std::vector<int> statuses(kRanks, -1);
  int left = kRanks;
  for (int64_t waited = 0; left > 0; waited += 2000) {
    for (int rank = 0; rank < kRanks; ++rank)
      if (statuses[static_cast<size_t>(rank)] == -1 &&
          waitpid(pids[static_cast<size_t>(rank)], &statuses[static_cast<size_t>(rank)], WNOHANG) > 0)
        --left;
    if (waited > kDeadlineS * 1000000LL)
      for (const pid_t pid : pids) kill(pid, SIGKILL);
    sleep_us(2000);
  }
  return statuses;
}

}  // namespace

TEST_CASE("kill: survivors of a killed rank finish or name it, and nothing is left") {
  const char* given = std::getenv("KILL_TEST_SEED");
  const char* given_jobs = std::getenv("KILL_TEST_JOBS");
  const uint64_t seed = given ? std::strtoull(given, nullptr, 10) : static_cast<uint64_t>(time(nullptr));
  const int jobs = given_jobs ? std::atoi(given_jobs) : kJobs;
  const char* given_within = std::getenv("KILL_TEST_WITHIN_US");
  const uint64_t within_us = given_within ? std::strtoull(given_within, nullptr, 10) : 400000;
  WARN("seed " << seed << ", " << jobs << " jobs");
  auto* shared =
      static_cast<Shared*>(mmap(nullptr, sizeof(Shared), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0));
  REQUIRE(shared != MAP_FAILED);
  const auto shm_before = names_in("/dev/shm"), tmp_before = names_in("/tmp");
  std::mt19937_64 random(seed);
  int finished = 0, named = 0;
  for (int job = 0; job < jobs; ++job) {
    const int victim = static_cast<int>(random() % kRanks);
    const int64_t after_us = static_cast<int64_t>(random() % (job % 4 == 0 ? 20000 : within_us));
    const char* transports = job % 3 == 0 ? "tcp" : job % 3 == 1 ? "shm" : nullptr;
    shared->joined.store(0);
    for (auto& text : shared->text) text[0] = 0;
    const auto statuses = run_job(*shared, victim, after_us, transports, seed + static_cast<uint64_t>(job));
    for (int rank = 0; rank < kRanks; ++rank) {
      if (rank == victim) continue;
      const int status = statuses[static_cast<size_t>(rank)];
      INFO("job " << job << ", victim " << victim << " after " << after_us << " us, " << shared->joined.load()
                  << " had joined, over " << (transports ? transports : "all") << "; rank " << rank << " said '"
                  << shared->text[rank] << "'");
      REQUIRE(WIFEXITED(status));
      REQUIRE((WEXITSTATUS(status) == kFinished || WEXITSTATUS(status) == kNamedIt));
      ++(WEXITSTATUS(status) == kFinished ? finished : named);
    }
  }
  WARN("survivors: " << finished << " finished, " << named << " named the dead rank");
  CHECK(names_in("/dev/shm") == shm_before);
  CHECK(names_in("/tmp") == tmp_before);
  munmap(shared, sizeof(Shared));
}
