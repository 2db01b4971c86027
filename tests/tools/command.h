// Runs a program for a test: its output, how it ended, and a deadline after which it is killed.
#pragma once

#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <string>
#include <vector>

#include "base/fd.h"

namespace rondo::test {

struct Outcome {
  int exit_code = -1;  // 128 + N when signal N ended it
  bool expired = false;
  std::string out, err;
};

inline std::string contents(int fd) {
  std::string text;
  std::array<char, 65536> bytes;
  lseek(fd, 0, SEEK_SET);
  for (ssize_t got; (got = read(fd, bytes.data(), bytes.size())) > 0;) text.append(bytes.data(), got);
  return text;
}

// A program under way. Its output goes to memory, so it never waits for a reader.
class Command {
 public:
  explicit Command(std::vector<std::string> arguments)
      : out_(memfd_create("stdout", MFD_CLOEXEC)), err_(memfd_create("stderr", MFD_CLOEXEC)) {
    std::vector<char*> list;
    for (std::string& argument : arguments) list.push_back(argument.data());
    list.push_back(nullptr);
    pid_ = fork();
    if (pid_ == 0) {
      dup2(open("/dev/null", O_RDONLY | O_CLOEXEC), 0);
      dup2(out_.get(), 1);
      dup2(err_.get(), 2);
      execv(list[0], list.data());
      _exit(127);
    }
    pidfd_ = UniqueFd(static_cast<int>(syscall(SYS_pidfd_open, pid_, 0)));
  }
  Command(const Command&) = delete;
  Command& operator=(const Command&) = delete;
  ~Command() {
    if (pid_ > 0) (void)finish(0);
  }

  pid_t pid() const { return pid_; }
  std::string out() const { return contents(out_.get()); }

  // Waits until stdout holds `text`; false after `limit_ms`. Output to a memory file cannot be waited for, hence
  // polling.
  bool wait_for_output(const std::string& text, int limit_ms = 10000) const {
    for (int waited = 0; waited < limit_ms; waited += 10) {
      if (out().find(text) != std::string::npos) return true;
      pollfd entry = {pidfd_.get(), POLLIN, 0};
      if (poll(&entry, 1, 10) > 0) return out().find(text) != std::string::npos;
    }
    return false;
  }

  Outcome finish(int limit_ms = 20000) {
    pollfd entry = {pidfd_.get(), POLLIN, 0};
    Outcome outcome;
    outcome.expired = poll(&entry, 1, limit_ms) == 0;
    if (outcome.expired) kill(pid_, SIGKILL);
    int status = 0;
    waitpid(pid_, &status, 0);
    pid_ = 0;
    outcome.exit_code = WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
    outcome.out = out();
    outcome.err = contents(err_.get());
    return outcome;
  }

 private:
  UniqueFd out_, err_, pidfd_;
  pid_t pid_ = 0;
};

inline Outcome run_command(std::vector<std::string> arguments, int limit_ms = 20000) {
  return Command(std::move(arguments)).finish(limit_ms);
}

// True once no process has the number, false after `limit_ms`.
inline bool gone(pid_t pid, int limit_ms = 5000) {
  const UniqueFd pidfd(static_cast<int>(syscall(SYS_pidfd_open, pid, 0)));
  if (!pidfd) return true;
  pollfd entry = {pidfd.get(), POLLIN, 0};
  return poll(&entry, 1, limit_ms) == 1;
}

}  // namespace rondo::test
