// How callers and the progress thread wait: spin briefly, yield, then sleep on the kernel's events. While an operation
// does not move, the watch looks for the reason.
#include <poll.h>
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
  ring(doorbell_);
  condition_.notify_all();
}

void Fabric::ring(const UniqueFd& bell) {
  const uint64_t one = 1;
  [[maybe_unused]] const ssize_t written = write(bell.get(), &one, sizeof one);  // full: it rings already
}

void Fabric::drain(const UniqueFd& bell) {
  uint64_t rings;
  [[maybe_unused]] const ssize_t got = read(bell.get(), &rings, sizeof rings);
}

// Drives the one operation; everything else now and then, or every time when something else is under way.
bool Fabric::drive_or_pass(Operation& operation, uint32_t turn) {
  return turn % 8 == 7 || executor_->running() > 1 ? pass() : executor_->drive(operation);
}

// For so many looks in vain in a row.
bool Fabric::spin(Operation& operation) {
  uint32_t moves = 0;
  for (uint32_t i = 0; i < spins_; ++i) {
    const bool moved = drive_or_pass(operation, i);
    if (operation.ended()) return true;
    if (moved) {
      i = 0;
      if (++moves % 64 == 0) control_pass();
    }
    pause_cpu();
    if (lease_.wanted()) lease_.hand_over();
  }
  return operation.ended();
}

bool Fabric::yield(Operation& operation) {
  for (uint32_t i = 0; i < yields_; ++i) {
    sched_yield();
    drive_or_pass(operation, i);
    if (operation.ended()) return true;
    if (i % 32 == 31) control_pass();
    if (lease_.wanted()) lease_.hand_over();
  }
  return operation.ended();
}

bool Fabric::launch(Operation& operation, bool block) {
  executor_->submit(operation);
  if (!operation.ended()) executor_->drive(operation);
  bool others_wait = !operation.ended() && (executor_->running() > 1 || !executor_->has_given_all(operation));
  if (block) {
    if (!operation.ended()) spin(operation);
  } else if (others_wait) {
    pass();
    others_wait = !operation.ended() && !executor_->has_given_all(operation);
  }
  if (executor_->ended() != ended_seen_) notify_ended();
  return others_wait;
}

// After launch(), with the lease handed back: waits, or leaves what the peers wait for to the progress thread. (What
// only this rank waits for is done by whoever comes to ask.)
void Fabric::settle(Operation& operation, bool block, bool others_wait) {
  if (operation.ended()) return;
  if (block) {
    wait(operation, -1);
  } else if (others_wait && waiters_.load(std::memory_order_relaxed) == 0 &&
             thread_asleep_.load(std::memory_order_seq_cst)) {
    ring(thread_bell_);
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
  bool pending = false;
  {
    LeaseHold hold(*this);
    disarm();
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
      if (sleep_step(operation, until)) {
        for (int i = 0; i < 50 && !operation.ended(); ++i)
          if (!pass()) sched_yield();
      }
      ended = operation.ended();
    }
    pending = executor_->running() > 0;
  }
  // The last waiter leaves: the progress thread takes over what is pending.
  if (waiters_.fetch_sub(1, std::memory_order_seq_cst) == 1 && pending) ring(thread_bell_);
}

bool Fabric::arm() {
  bool armed = true;
  for (const auto& transport : transports_) armed = armed && transport->arm();
  armed_ = true;
  return armed;
}

void Fabric::disarm() {
  if (!armed_) return;
  armed_ = false;
  for (const auto& transport : transports_) transport->disarm();
}

// One sleep of a waiting caller, with the lease handed back meanwhile. Returns whether something may have happened.
bool Fabric::sleep_step(const Operation& operation, int64_t until_ns) {
  if (pass()) return true;
  sleepers_.fetch_add(1, std::memory_order_seq_cst);  // pairs with the load in notify_ended()
  // After arm(): what stands in shared areas rings only for who was armed before.
  bool woken = !arm() || pass() || operation.ended();
  if (!woken) {
    const int64_t left_ms =
        until_ns == INT64_MAX ? kLookEveryMs : std::max<int64_t>((until_ns - now_ns()) / kMs, 0) + 1;
    const int timeout = static_cast<int>(std::min<int64_t>(left_ms, kLookEveryMs));
    lease_.unlock();
    if (!poller_.exchange(true, std::memory_order_acq_rel)) {
      epoll_event events[8];
      woken = epoll_wait(epoll_.get(), events, 8, timeout) > 0;
      drain(doorbell_);
      poller_.store(false, std::memory_order_release);
      condition_.notify_one();
    } else {
      std::unique_lock<std::mutex> lock(condition_mutex_);
      woken = condition_.wait_for(lock, std::chrono::milliseconds(timeout)) == std::cv_status::no_timeout;
    }
    lease_.lock();
  }
  sleepers_.fetch_sub(1, std::memory_order_relaxed);
  disarm();
  return woken;
}

// The progress thread moves what nobody waits for, and hears of the peers' fate. It never competes with a waiting
// caller: the last one to leave rings it when something is still pending.
void Fabric::run_thread() {
  while (!stop_.load(std::memory_order_acquire)) {
    const bool waited_for = waiters_.load(std::memory_order_seq_cst) > 0;
    bool pending = false, moved = false;
    if (!waited_for) {
      if (!lease_.try_lock()) {
        sched_yield();
        continue;
      }
      disarm();
      control_pass();
      watch(now_ns());
      moved = pass();
      pending = executor_->running() > 0;
      if (!moved && pending) moved = !arm() || pass();
      // seq_cst: pairs with the load in settle(); a call that comes after this rings the bell.
      thread_asleep_.store(true, std::memory_order_seq_cst);
      lease_.unlock();
    }
    if (!moved) {
      pollfd ears[3] = {{thread_bell_.get(), POLLIN, 0},
                        {waited_for || control_ == nullptr ? -1 : control_->wait_fd(), POLLIN, 0},
                        {pending ? epoll_.get() : -1, POLLIN, 0}};
      ::poll(ears, 3, pending ? kLookEveryMs : kIdleMs);
    }
    thread_asleep_.store(false, std::memory_order_seq_cst);
    drain(thread_bell_);
  }
}

}  // namespace rondo
