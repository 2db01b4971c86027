// How callers and the progress thread wait: spin briefly, yield, then sleep on the kernel's events. While an operation
// does not move, the watch looks for the reason.
#include <sched.h>
#include <sys/epoll.h>
#include <unistd.h>

#include <algorithm>

#include "comm/fabric.h"

namespace rondo {
namespace {

constexpr int64_t kMs = 1'000'000;
// A sleeper wakes at least this often, to look at deadlines and boards.
constexpr int kLookEveryMs = 20;
constexpr int kIdleMs = 1000;

void pause_cpu() { __builtin_ia32_pause(); }

}  // namespace

bool Fabric::pass() {
  const bool moved = executor_->progress();
  if (executor_->suspicious()) watch(now_ns());
  if (executor_->ended() != ended_seen_) notify_ended();
  return moved;
}

// Operations have ended: whoever sleeps for one looks again.
void Fabric::notify_ended() {
  ended_seen_ = executor_->ended();
  announce_failures();
  // Pairs with the increment before a sleeper's last look: it sees the operation ended, or is counted here.
  if (sleepers_.load(std::memory_order_seq_cst) == 0) return;
  ring();
  condition_.notify_all();
}

void Fabric::ring() {
  const uint64_t one = 1;
  [[maybe_unused]] const ssize_t written = write(doorbell_.get(), &one, sizeof one);  // full: it rings already
}

// Lets another thread have the lease for a moment.
void Fabric::hand_over() {
  lease_.unlock();
  sched_yield();
  lease_.lock();
}

bool Fabric::spin(Operation& operation) {
  for (uint32_t i = 0; i < spins_; ++i) {
    pass();
    if (operation.ended()) return true;
    pause_cpu();
    if (wanted_.load(std::memory_order_relaxed) != 0) hand_over();
  }
  return operation.ended();
}

bool Fabric::yield(Operation& operation) {
  for (uint32_t i = 0; i < yields_; ++i) {
    sched_yield();
    pass();
    if (operation.ended()) return true;
    if (i % 32 == 31) control_pass();
    if (wanted_.load(std::memory_order_relaxed) != 0) hand_over();
  }
  return operation.ended();
}

void Fabric::launch(Operation& operation, bool block) {
  executor_->submit(operation);
  if (!operation.ended()) executor_->drive(operation);
  if (!block) {
    pass();
  } else if (!operation.ended()) {
    spin(operation);
  }
  if (executor_->ended() != ended_seen_) notify_ended();
}

// After launch(), with the lease handed back: waits, or leaves the rest to the progress thread.
void Fabric::settle(Operation& operation, bool block) {
  if (operation.ended()) return;
  if (block) {
    wait(operation, -1);
  } else if (waiters_.load(std::memory_order_relaxed) == 0 && thread_asleep_.load(std::memory_order_seq_cst)) {
    ring();
  }
}

void Fabric::poll() {
  LeaseHold hold(*this);
  pass();
  control_pass();
}

void Fabric::wait(Operation& operation, int64_t timeout_ns) {
  if (operation.ended()) return;
  waiters_.fetch_add(1, std::memory_order_seq_cst);
  {
    LeaseHold hold(*this);
    bool ended = operation.ended();
    if (timeout_ns == 0) {
      pass();
      control_pass();
      ended = true;
    }
    ended = ended || spin(operation) || yield(operation);
    const int64_t until = timeout_ns < 0 ? INT64_MAX : ended ? 0 : now_ns() + timeout_ns;
    while (!ended) {
      const int64_t now = now_ns();
      control_pass();
      watch(now);
      if (operation.ended() || now >= until) break;
      // After a sleep the peers are often about to go on: a few yields catch what follows without another sleep.
      if (sleep_step(&operation, until)) {
        for (int i = 0; i < 50 && !operation.ended(); ++i) {
          if (!pass()) sched_yield();
        }
      }
      ended = operation.ended();
    }
  }
  if (waiters_.fetch_sub(1, std::memory_order_seq_cst) == 1) {
    // The last waiter leaves: the progress thread takes over what is pending.
    condition_.notify_all();
    if (!executor_idle_.load(std::memory_order_relaxed)) ring();
  }
}

// One sleep, with the lease handed back meanwhile. Returns whether something may have happened.
bool Fabric::sleep_step(const Operation* operation, int64_t until_ns) {
  if (pass()) return true;
  bool armed = true, polled = false;
  for (const auto& transport : transports_) {
    armed = armed && transport->arm();
    polled = polled || transport->wait_fd() < 0;
  }
  executor_idle_.store(executor_->idle(), std::memory_order_relaxed);
  sleepers_.fetch_add(1, std::memory_order_seq_cst);  // pairs with the load in notify_ended()
  bool woken = !armed || (operation != nullptr && operation->ended());
  if (!woken) {
    const int64_t left_ms = until_ns == INT64_MAX ? kIdleMs : std::max<int64_t>((until_ns - now_ns()) / kMs, 0) + 1;
    const int most = polled ? 1 : executor_->idle() ? kIdleMs : kLookEveryMs;
    const int timeout = static_cast<int>(std::min<int64_t>(left_ms, most));
    lease_.unlock();
    if (operation == nullptr || !poller_.exchange(true, std::memory_order_acq_rel)) {
      epoll_event events[8];
      woken = epoll_wait(epoll_.get(), events, 8, timeout) > 0;
      uint64_t rings;
      [[maybe_unused]] const ssize_t got = read(doorbell_.get(), &rings, sizeof rings);
      if (operation != nullptr) {
        poller_.store(false, std::memory_order_release);
        condition_.notify_one();
      }
    } else {
      std::unique_lock<std::mutex> lock(condition_mutex_);
      woken = condition_.wait_for(lock, std::chrono::milliseconds(std::min(timeout, kLookEveryMs))) ==
              std::cv_status::no_timeout;
    }
    take_lease();
  }
  sleepers_.fetch_sub(1, std::memory_order_relaxed);
  for (const auto& transport : transports_) transport->disarm();
  return woken;
}

// The progress thread moves what nobody waits for, and hears of the peers' fate. It never competes with a waiting
// caller.
void Fabric::run_thread() {
  while (!stop_.load(std::memory_order_acquire)) {
    if (waiters_.load(std::memory_order_seq_cst) > 0) {
      std::unique_lock<std::mutex> lock(condition_mutex_);
      condition_.wait_for(lock, std::chrono::milliseconds(50), [&] {
        return waiters_.load(std::memory_order_seq_cst) == 0 || stop_.load(std::memory_order_acquire);
      });
      continue;
    }
    if (!lease_.try_lock()) {
      sched_yield();
      continue;
    }
    control_pass();
    watch(now_ns());
    if (!pass()) {
      thread_asleep_.store(true, std::memory_order_seq_cst);
      sleep_step(nullptr, INT64_MAX);
      thread_asleep_.store(false, std::memory_order_relaxed);
    }
    lease_.unlock();
  }
}

}  // namespace rondo
