// Ranks as threads of this process: each thread joins the same inproc:// job and runs the same body.
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include <unistd.h>

#include <fmt/format.h>

#include "rondo/rondo.h"

namespace rondo_test {

struct JobSettings {
  int32_t world = 2;
  const char* transports = nullptr;  // null: all
  int fake_hosts = 0;
  const char* algorithm = nullptr;
  int64_t timeout_ms = 20000;
  std::string config;  // "NAME=value;..."
};

inline std::string fresh_name() {
  static std::atomic<int> number{0};
  return fmt::format("inproc://test-{}-{}", getpid(), number.fetch_add(1));
}

inline std::string error_text(const rondo_comm* comm) {
  char text[1024];
  rondo_error_text(comm, text, sizeof text);
  return text;
}

// What went wrong in the threads: Catch's macros belong to the main thread, so that threads note and the caller checks.
class Notes {
 public:
  void add(const std::string& text) {
    std::lock_guard<std::mutex> lock(mutex_);
    if (texts_.size() < 20) texts_.push_back(text);
  }
  // Notes the text unless `good`.
  bool expect(bool good, const std::string& text) {
    if (!good) add(text);
    return good;
  }
  std::string all() const {
    std::string joined;
    for (const std::string& text : texts_) joined += text + "\n";
    return joined;
  }

 private:
  std::mutex mutex_;
  std::vector<std::string> texts_;
};

inline rondo_comm* join(const JobSettings& job, const std::string& name, int32_t rank, Notes& notes) {
  rondo_options options = RONDO_OPTIONS_INIT;
  options.rank = rank;
  options.world = job.world;
  options.rendezvous = name.c_str();
  options.transports = job.transports;
  options.algorithm = job.algorithm;
  options.timeout_ns = job.timeout_ms * 1'000'000;
  const std::string config =
      job.config + (job.fake_hosts > 0 ? fmt::format(";RONDO_FAKE_HOSTS={}", job.fake_hosts) : "");
  options.config = config.c_str();
  rondo_comm* comm = nullptr;
  const rondo_status status = rondo_init(&options, &comm);
  if (status != RONDO_OK)
    notes.add(fmt::format("rank {}: init: {} {}", rank, rondo_status_name(status), error_text(nullptr)));
  return comm;
}

// Runs `body(comm, rank)` on every rank and returns what the notes say ("" is success).
inline std::string run_ranks(const JobSettings& job, const std::function<void(rondo_comm*, int32_t, Notes&)>& body) {
  const std::string name = fresh_name();
  Notes notes;
  std::vector<std::thread> threads;
  for (int32_t rank = 0; rank < job.world; ++rank)
    threads.emplace_back([&, rank] {
      rondo_comm* comm = join(job, name, rank, notes);
      if (comm == nullptr) return;
      body(comm, rank, notes);
      rondo_destroy(comm);
    });
  for (std::thread& thread : threads) thread.join();
  return notes.all();
}

}  // namespace rondo_test
