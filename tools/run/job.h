// Supervision of one job: output, signals, deaths, the end. One thread, one poll loop; every wait has a deadline or an
// event that ends it.
#pragma once

#include <signal.h>

#include <chrono>
#include <optional>
#include <string>
#include <vector>

#include "base/fd.h"
#include "run/options.h"
#include "run/output.h"
#include "run/spawn.h"

namespace rondo::run {

// How a rank ended.
struct Ending {
  uint32_t rank = 0;
  bool by_signal = false;
  int value = 0;  // exit code or signal number

  bool failed() const { return by_signal || value != 0; }
  int exit_code() const { return by_signal ? 128 + value : value; }
};
// "rank 2 (pid 77) was ended by signal 11 (SIGSEGV)", "rank 2 (pid 77) ended with exit code 3".
std::string describe(const Ending& ending, pid_t pid);

class Job {
 public:
  explicit Job(Options options) : options_(std::move(options)), output_(1), errors_(2) {}
  Job(const Job&) = delete;
  Job& operator=(const Job&) = delete;
  ~Job();

  // Starts all ranks. On failure none is left running, and exit_code is what the launcher should end with.
  ErrorText start(int& exit_code);

  // Runs until every rank has ended and its output is out; returns the launcher's exit code.
  int supervise();

 private:
  using Clock = std::chrono::steady_clock;
  enum class Phase { running, grace, terminating, killing };

  int poll_once();
  int timeout_ms() const;
  void read_signals();
  void forward(int number);
  void stop_and_continue();
  void note_ended(size_t index);
  void fail(const Ending& ending, pid_t pid);
  void enter_grace(double seconds);
  void advance(Clock::time_point now);
  void signal_running(int number);
  void drain();
  void kill_groups();
  void say(const std::string& text);
  std::string running_ranks() const;
  bool all_ended() const { return ended_ == processes_.size(); }

  Options options_;
  Sink output_, errors_;
  std::vector<Process> processes_;  // not reaped before the end, so that their group numbers stay theirs
  std::vector<bool> has_ended_;
  std::vector<LineStream> streams_;
  size_t ended_ = 0;
  UniqueFd signals_;
  UniqueFd guardian_;
  pid_t guardian_pid_ = 0;
  std::optional<Ending> first_failure_;
  bool timed_out_ = false;
  uint32_t interrupts_ = 0;
  Phase phase_ = Phase::running;
  std::optional<Clock::time_point> deadline_;      // of the phase
  std::optional<Clock::time_point> job_deadline_;  // --timeout
};

}  // namespace rondo::run
