#include "base/log.h"

#include <limits.h>
#include <poll.h>
#include <signal.h>
#include <time.h>
#include <unistd.h>

#include <cerrno>
#include <string>

namespace rondo {
namespace {

// A pipe takes a line of this size in one piece, so lines of several ranks do not mix.
constexpr size_t kLineMax = PIPE_BUF;

std::string one_line(std::string_view text) {
  std::string line(text);
  for (char& c : line)
    if (static_cast<unsigned char>(c) < 0x20 || c == 0x7f) c = '?';
  return line;
}

// Keeps SIGPIPE from this thread while it lives, and takes away the one that a write inside has caused.
class SigpipeShield {
 public:
  SigpipeShield() {
    sigemptyset(&sigpipe_);
    sigaddset(&sigpipe_, SIGPIPE);
    sigset_t pending;
    sigpending(&pending);
    was_pending_ = sigismember(&pending, SIGPIPE) == 1;
    if (!was_pending_) pthread_sigmask(SIG_BLOCK, &sigpipe_, &before_);
  }
  SigpipeShield(const SigpipeShield&) = delete;
  SigpipeShield& operator=(const SigpipeShield&) = delete;
  ~SigpipeShield() {
    if (was_pending_) return;
    const timespec now = {0, 0};
    while (sigtimedwait(&sigpipe_, nullptr, &now) < 0 && errno == EINTR) {
    }
    pthread_sigmask(SIG_SETMASK, &before_, nullptr);
  }

 private:
  sigset_t sigpipe_, before_;
  bool was_pending_ = false;
};

bool stderr_takes_more() {
  pollfd wanted = {STDERR_FILENO, POLLOUT, 0};
  return poll(&wanted, 1, Logger::kStderrWaitMs) == 1 && (wanted.revents & POLLOUT) != 0;
}

void write_stderr(std::string_view line) {
  const int saved_errno = errno;
  {
    const SigpipeShield shield;
    while (!line.empty() && stderr_takes_more()) {
      const ssize_t written = ::write(STDERR_FILENO, line.data(), line.size());
      if (written < 0 && errno == EINTR) continue;
      if (written <= 0) break;
      line.remove_prefix(static_cast<size_t>(written));
    }
  }
  errno = saved_errno;
}

}  // namespace

void Logger::write(LogLevel level, std::string_view text) const {
  if (!enabled(level)) return;
  std::string line = one_line(text);
  if (options_.callback) {
    options_.callback(options_.callback_arg, static_cast<int>(level), line.c_str());
    return;
  }
  line = options_.rank < 0 ? fmt::format("rondo: {}", line) : fmt::format("rondo[{}]: {}", options_.rank, line);
  if (line.size() >= kLineMax) line.resize(kLineMax - 1);
  write_stderr(line + '\n');
}

}  // namespace rondo
