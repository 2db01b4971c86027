// The progress lease: a lock that costs one locked instruction to take and a plain store to give back, since a small
// allreduce takes it every time. Its holders never sleep with it, so that a thread that wants it yields for a while
// before it sleeps. Any thread.
#pragma once

#include <sched.h>

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <mutex>

namespace rondo {

class Lease {
 public:
  bool try_lock() {
    // Acquire: pairs with the release in unlock().
    return !held_.exchange(true, std::memory_order_acquire);
  }
  void lock() {
    if (!try_lock()) await();
  }
  void unlock() {
    held_.store(false, std::memory_order_release);  // pairs with the acquire in try_lock()
    // Relaxed: this look may come too early to see a thread that falls asleep right now; that one looks again by
    // itself.
    if (sleepers_.load(std::memory_order_relaxed) != 0) condition_.notify_one();
  }

  // Whether another thread waits for the lease. Relaxed: a hint.
  bool wanted() const { return wanted_.load(std::memory_order_relaxed) != 0; }
  // For the holder: lets another thread that waits have its turn first.
  void hand_over() {
    const uint32_t turns = turns_.load(std::memory_order_relaxed);
    unlock();
    for (int i = 0; i < kPatience; ++i) {
      sched_yield();
      if (!wanted() || turns_.load(std::memory_order_relaxed) != turns) break;
    }
    lock();
  }

 private:
  static constexpr int kPatience = 200;
  static constexpr int kYields = 1000;
  static constexpr std::chrono::microseconds kLookEvery{500};

  void await() {
    wanted_.fetch_add(1, std::memory_order_relaxed);
    for (int turn = 0; held_.load(std::memory_order_relaxed) || !try_lock(); ++turn) {
      if (turn < kYields) {
        sched_yield();
        continue;
      }
      std::unique_lock<std::mutex> lock(mutex_);
      sleepers_.fetch_add(1, std::memory_order_relaxed);
      condition_.wait_for(lock, kLookEvery);
      sleepers_.fetch_sub(1, std::memory_order_relaxed);
    }
    // Relaxed, both: hints for the other side, ordered by the lease itself where it matters.
    turns_.fetch_add(1, std::memory_order_relaxed);
    wanted_.fetch_sub(1, std::memory_order_relaxed);
  }

  std::atomic<bool> held_{false};
  std::atomic<uint32_t> wanted_{0};  // threads that wait
  std::atomic<uint32_t> turns_{0};   // how often a thread that waited has been served
  std::atomic<uint32_t> sleepers_{0};
  std::mutex mutex_;
  std::condition_variable condition_;
};

}  // namespace rondo
