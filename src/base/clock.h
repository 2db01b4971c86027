// Monotonic time as int64 nanoseconds, and deadlines on it. Values; any thread.
#pragma once

#include <ctime>

#include <cstdint>
#include <limits>

namespace rondo {

inline int64_t now_ns() {
  timespec t;
  clock_gettime(CLOCK_MONOTONIC, &t);
  return static_cast<int64_t>(t.tv_sec) * 1'000'000'000 + t.tv_nsec;
}

struct Deadline {
  int64_t at_ns = std::numeric_limits<int64_t>::max();  // the maximum: never

  static Deadline never() { return {}; }
  static Deadline after_ns(int64_t ns) { return {now_ns() + ns}; }
  static Deadline after_ms(int64_t ms) { return after_ns(ms * 1'000'000); }
  bool passed() const { return at_ns != std::numeric_limits<int64_t>::max() && now_ns() >= at_ns; }
  // For poll and epoll_wait: -1 for never, else the milliseconds left, rounded up, at most `most`.
  int poll_ms(int most) const {
    if (at_ns == std::numeric_limits<int64_t>::max()) return most;
    const int64_t left = at_ns - now_ns();
    if (left <= 0) return 0;
    const int64_t ms = (left + 999'999) / 1'000'000;
    return ms > most ? most : static_cast<int>(ms);
  }
};

}  // namespace rondo
