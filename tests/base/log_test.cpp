#include <fcntl.h>
#include <signal.h>
#include <unistd.h>

#include <cerrno>
#include <chrono>
#include <string>
#include <utility>
#include <vector>

#include <catch2/catch.hpp>

#include "base/log.h"

using namespace rondo;

namespace {

using Lines = std::vector<std::pair<int, std::string>>;

void collect(void* lines, int level, const char* text) { static_cast<Lines*>(lines)->emplace_back(level, text); }

// Puts a pipe in place of stderr while it lives.
class StderrPipe {
 public:
  StderrPipe() {
    REQUIRE(pipe(ends_) == 0);
    saved_ = dup(STDERR_FILENO);
    dup2(ends_[1], STDERR_FILENO);
  }
  ~StderrPipe() {
    restore();
    close_reader();
    close(ends_[1]);
  }
  void restore() {
    if (saved_ < 0) return;
    dup2(saved_, STDERR_FILENO);
    close(saved_);
    saved_ = -1;
  }
  void close_reader() {
    if (ends_[0] >= 0) close(ends_[0]);
    ends_[0] = -1;
  }
  std::string read_some() {
    std::string text(1 << 16, '\0');
    const ssize_t got = read(ends_[0], text.data(), text.size());
    text.resize(got > 0 ? static_cast<size_t>(got) : 0);
    return text;
  }
  // Leaves no room for another byte.
  void fill() {
    fcntl(ends_[1], F_SETFL, O_NONBLOCK);
    const std::string block(4096, 'x');
    while (write(ends_[1], block.data(), block.size()) > 0) {
    }
    fcntl(ends_[1], F_SETFL, 0);
  }

 private:
  int ends_[2] = {-1, -1};
  int saved_ = -1;
};

}  // namespace

TEST_CASE("log: the callback gets the bare text of the lines up to the level") {
  Lines lines;
  const Logger log({.level = LogLevel::info, .rank = 2, .callback = collect, .callback_arg = &lines});
  log.error("e {}", 1);
  log.warn("w");
  log.info("i");
  log.debug("d");
  CHECK(lines == Lines{{0, "e 1"}, {1, "w"}, {2, "i"}});
  CHECK_FALSE(log.enabled(LogLevel::debug));
}

TEST_CASE("log: control characters cannot forge a second line") {
  Lines lines;
  const Logger log({.callback = collect, .callback_arg = &lines});
  log.warn("peer says {}", "a\nrondo[0]: all well\x1b[31m");
  REQUIRE(lines.size() == 1);
  CHECK(lines[0].second == "peer says a?rondo[0]: all well?[31m");
}

TEST_CASE("log: stderr gets whole lines with the rank, once it is known") {
  StderrPipe pipe;
  const Logger log;
  log.warn("early");
  log.info("not written at the default level");
  log.with_rank(3).error("late");
  pipe.restore();
  CHECK(pipe.read_some() == "rondo: early\nrondo[3]: late\n");
}

TEST_CASE("log: a long line is cut to what a pipe takes in one piece") {
  StderrPipe pipe;
  Logger().warn("{}", std::string(100000, 'a'));
  pipe.restore();
  const std::string text = pipe.read_some();
  CHECK(text.size() == 4096);
  CHECK(text.back() == '\n');
}

TEST_CASE("log: a stderr without a reader raises no signal and keeps errno") {
  StderrPipe pipe;
  pipe.close_reader();
  errno = ENOENT;
  Logger().warn("nobody hears this");
  const int after = errno;
  pipe.restore();
  CHECK(after == ENOENT);
  sigset_t pending, mask;
  sigpending(&pending);
  CHECK(sigismember(&pending, SIGPIPE) == 0);
  pthread_sigmask(SIG_BLOCK, nullptr, &mask);
  CHECK(sigismember(&mask, SIGPIPE) == 0);
}

TEST_CASE("log: a full stderr loses the line instead of holding the job") {
  StderrPipe pipe;
  pipe.fill();
  const auto start = std::chrono::steady_clock::now();
  Logger().warn("dropped");
  const auto elapsed = std::chrono::steady_clock::now() - start;
  pipe.restore();
  CHECK(elapsed >= std::chrono::milliseconds(Logger::kStderrWaitMs));
}
