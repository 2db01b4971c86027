// Runs a body on every rank of a job whose ranks are threads of this process.
#pragma once

#include <atomic>
#include <functional>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "train/group.h"
#include "train/tensor.h"

namespace rondo::train {

// What each rank's body returned, or why it could not join. Bodies must not use assertions: they are not thread-safe.
inline std::vector<Status> run_job(int32_t world, const std::function<Status(Group&)>& body) {
  static std::atomic<int> jobs{0};
  const std::string rendezvous = "inproc://train-test-" + std::to_string(jobs++);
  std::vector<Status> outcomes(static_cast<size_t>(world));
  std::vector<std::thread> threads;
  for (int32_t rank = 0; rank < world; ++rank) {
    threads.emplace_back([&, rank] {
      compute_on_this_thread_only();
      Result<std::unique_ptr<Group>> group =
          Group::join({.algorithm = "ring", .rendezvous = rendezvous, .rank = rank, .world = world});
      outcomes[static_cast<size_t>(rank)] = group.ok() ? body(*group.value()) : group.status();
    });
  }
  for (std::thread& thread : threads) thread.join();
  return outcomes;
}

// The text of the first failure, with its rank; empty when all ranks succeeded.
inline std::string first_failure(const std::vector<Status>& outcomes) {
  for (size_t rank = 0; rank < outcomes.size(); ++rank) {
    if (!outcomes[rank].ok()) return "rank " + std::to_string(rank) + ": " + outcomes[rank].text();
  }
  return {};
}

}  // namespace rondo::train
