#include "run/job.h"

#include <errno.h>
#include <poll.h>
#include <string.h>
#include <sys/signalfd.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>

#include <fmt/format.h>

namespace rondo::run {
namespace {

constexpr int kExitTimeout = 124;
constexpr int kExitSetup = 125;
constexpr int kExitNotExecutable = 126;
constexpr int kExitNotFound = 127;
constexpr double kTerminateSeconds = 2;  // from SIGTERM to SIGKILL
constexpr auto kDrainTime = std::chrono::milliseconds(2000);

// SIGTSTP stops the job; all others are forwarded.
constexpr std::array kHandled = {SIGINT, SIGTERM, SIGHUP, SIGQUIT, SIGUSR1, SIGUSR2, SIGTSTP};

bool ends_the_job(int number) { return number != SIGUSR1 && number != SIGUSR2; }

std::string signal_name(int number) {
  const char* name = sigabbrev_np(number);
  return name != nullptr ? fmt::format("SIG{}", name) : fmt::format("signal {}", number);
}

// What arrives through the signalfd. A signal that was ignored when the launcher started (nohup, a shell's background
// job) stays ignored, which blocking it would undo.
sigset_t handled_signals() {
  sigset_t set;
  sigemptyset(&set);
  for (int number : kHandled) {
    struct sigaction action {};
    if (sigaction(number, nullptr, &action) == 0 && action.sa_handler != SIG_IGN) sigaddset(&set, number);
  }
  return set;
}

std::chrono::steady_clock::duration seconds_of(double seconds) {
  return std::chrono::duration_cast<std::chrono::steady_clock::duration>(std::chrono::duration<double>(seconds));
}

}  // namespace

std::string describe(const Ending& ending, pid_t pid) {
  if (ending.by_signal) {
    return fmt::format("rank {} (pid {}) was ended by signal {} ({})", ending.rank, pid, ending.value,
                       signal_name(ending.value));
  }
  return fmt::format("rank {} (pid {}) ended with exit code {}", ending.rank, pid, ending.value);
}

Job::~Job() {
  kill_groups();
  if (guardian_pid_ == 0) return;
  const char leave = 1;
  (void)!write(guardian_.get(), &leave, 1);
  guardian_.reset();
  waitpid(guardian_pid_, nullptr, 0);
}

ErrorText Job::start(int& exit_code) {
  exit_code = kExitSetup;
  signal(SIGPIPE, SIG_IGN);
  signal(SIGTTOU, SIG_IGN);
  const sigset_t set = handled_signals();
  sigprocmask(SIG_BLOCK, &set, nullptr);
  signals_ = UniqueFd(signalfd(-1, &set, SFD_CLOEXEC | SFD_NONBLOCK));
  if (signals_.get() < 0) return fmt::format("signalfd: {} (errno {})", strerror(errno), errno);

  Meeting meeting;
  meeting.descriptors = raise_descriptor_limit();
  if (ErrorText text = make_meeting(options_.ranks, meeting); !text.empty()) return text;
  const std::vector<CpuList> cpus = plan_cpus(options_.bind, options_.ranks);
  for (uint32_t rank = 0; rank < options_.ranks; ++rank) {
    Process process;
    int error_number = 0;
    if (ErrorText text = spawn(options_, meeting, rank, cpus[rank], process, error_number); !text.empty()) {
      if (error_number != 0) exit_code = error_number == ENOENT ? kExitNotFound : kExitNotExecutable;
      return text;
    }
    if (process.output) {
      streams_.emplace_back(process.output.release(), rank_prefix(rank, options_.ranks, output_.terminal()), output_);
      streams_.emplace_back(process.errors.release(), rank_prefix(rank, options_.ranks, errors_.terminal()), errors_);
    }
    processes_.push_back(std::move(process));
    if (options_.verbose) {
      say(fmt::format(
          "rank {} is pid {} on {}", rank, processes_.back().pid,
          cpus[rank].empty() ? std::string("any cpu") : fmt::format("cpus {}", fmt::join(cpus[rank], ","))));
    }
  }
  has_ended_.assign(processes_.size(), false);
  guardian_ = start_guardian(processes_, guardian_pid_);
  if (options_.timeout_s > 0) job_deadline_ = Clock::now() + seconds_of(options_.timeout_s);
  return {};
}

int Job::supervise() {
  while (!all_ended()) {
    if (poll_once() < 0 && errno != EINTR) {
      say(fmt::format("poll: {} (errno {})", strerror(errno), errno));
      return kExitSetup;
    }
    advance(Clock::now());
  }
  kill_groups();
  drain();
  if (timed_out_) return kExitTimeout;
  return first_failure_ ? first_failure_->exit_code() : 0;
}

// One poll over signals, ends of ranks, their output and the launcher's own output; handles what it reports.
int Job::poll_once() {
  std::vector<pollfd> list = {{signals_.get(), POLLIN, 0}};
  for (size_t index = 0; index < processes_.size(); ++index) {
    list.push_back({has_ended_[index] ? -1 : processes_[index].pidfd.get(), POLLIN, 0});
  }
  const size_t first_stream = list.size();
  for (const LineStream& stream : streams_) list.push_back({stream.sink().full() ? -1 : stream.fd(), POLLIN, 0});
  for (const Sink* sink : {&output_, &errors_}) list.push_back({sink->empty() ? -1 : sink->fd(), POLLOUT, 0});
  const int ready = poll(list.data(), list.size(), timeout_ms());
  if (ready <= 0) return ready;

  if (list[0].revents != 0) read_signals();
  if (list[list.size() - 2].revents != 0) output_.write_some();
  if (list[list.size() - 1].revents != 0) errors_.write_some();
  for (size_t index = 0; index < streams_.size(); ++index) {
    if (list[first_stream + index].revents != 0) streams_[index].read_some();
    // A rank whose output nobody reads learns it as it would without a launcher between.
    if (streams_[index].sink().broken()) streams_[index].close();
  }
  for (size_t index = 0; index < processes_.size(); ++index) {
    if (list[1 + index].revents != 0) note_ended(index);
  }
  return ready;
}

int Job::timeout_ms() const {
  std::optional<Clock::time_point> next = deadline_;
  if (job_deadline_ && (!next || *job_deadline_ < *next)) next = job_deadline_;
  if (!next) return -1;
  const auto left = std::chrono::ceil<std::chrono::milliseconds>(*next - Clock::now()).count();
  return static_cast<int>(std::clamp<int64_t>(left, 0, 3'600'000));
}

void Job::read_signals() {
  signalfd_siginfo facts{};
  while (read(signals_.get(), &facts, sizeof(facts)) == sizeof(facts)) {
    const int number = static_cast<int>(facts.ssi_signo);
    if (number == SIGTSTP) {
      stop_and_continue();
    } else {
      forward(number);
    }
  }
}

void Job::forward(int number) {
  signal_running(number);
  if (!ends_the_job(number)) return;
  if (++interrupts_ > 1) {
    say(fmt::format("{} after an earlier signal: killing {}", signal_name(number), running_ranks()));
    phase_ = Phase::terminating;
    deadline_ = Clock::now();
    return;
  }
  say(fmt::format("{} forwarded to {}", signal_name(number), running_ranks()));
  if (phase_ == Phase::running) enter_grace(options_.grace_s);
}

// The ranks are process groups of their own, so the terminal's stop key reaches only the launcher: it stops them, stops
// itself, and wakes them when it is continued.
void Job::stop_and_continue() {
  signal_running(SIGSTOP);
  raise(SIGSTOP);
  signal_running(SIGCONT);
}

void Job::note_ended(size_t index) {
  siginfo_t facts{};
  if (waitid(P_PIDFD, static_cast<id_t>(processes_[index].pidfd.get()), &facts, WEXITED | WNOHANG | WNOWAIT) != 0 ||
      facts.si_pid == 0) {
    return;
  }
  has_ended_[index] = true;
  ++ended_;
  const Ending ending = {processes_[index].rank, facts.si_code != CLD_EXITED, facts.si_status};
  if (ending.failed()) fail(ending, processes_[index].pid);
}

void Job::fail(const Ending& ending, pid_t pid) {
  if (first_failure_ || timed_out_) return;
  first_failure_ = ending;
  say(describe(ending, pid));
  if (options_.on_death == OnDeath::end && phase_ == Phase::running) enter_grace(options_.grace_s);
}

void Job::enter_grace(double seconds) {
  phase_ = Phase::grace;
  deadline_ = Clock::now() + seconds_of(seconds);
}

void Job::advance(Clock::time_point now) {
  if (job_deadline_ && now >= *job_deadline_) {
    job_deadline_.reset();
    if (!first_failure_) timed_out_ = true;
    say(fmt::format("the job has run for {} s, its time limit", options_.timeout_s));
    if (phase_ <= Phase::grace) {
      phase_ = Phase::grace;
      deadline_ = now;
    }
  }
  if (!deadline_ || now < *deadline_ || all_ended()) return;
  if (phase_ == Phase::grace) {
    say(fmt::format("ending {}, still running", running_ranks()));
    signal_running(SIGTERM);
    signal_running(SIGCONT);  // a stopped process acts on SIGTERM only once it is continued
    phase_ = Phase::terminating;
    deadline_ = now + seconds_of(kTerminateSeconds);
  } else {
    signal_running(SIGKILL);
    phase_ = Phase::killing;
    deadline_.reset();
  }
}

void Job::signal_running(int number) {
  for (size_t index = 0; index < processes_.size(); ++index) {
    if (!has_ended_[index]) kill(-processes_[index].pid, number);
  }
}

// What a rank has left behind in its process group ends with the job.
void Job::kill_groups() {
  for (Process& process : processes_) {
    if (process.pid == 0) continue;
    kill(-process.pid, SIGKILL);
    waitpid(process.pid, nullptr, 0);
    process.pid = 0;
  }
}

// Reads what is still in the pipes and writes out what is pending. A process outside the killed groups may hold a pipe
// open, or the reader may have stopped reading, hence the limit on standstill.
void Job::drain() {
  Clock::time_point stop = Clock::now() + kDrainTime;
  while (Clock::now() < stop) {
    std::vector<pollfd> list;
    for (const LineStream& stream : streams_) list.push_back({stream.sink().full() ? -1 : stream.fd(), POLLIN, 0});
    for (const Sink* sink : {&output_, &errors_}) list.push_back({sink->empty() ? -1 : sink->fd(), POLLOUT, 0});
    if (std::all_of(list.begin(), list.end(), [](const pollfd& entry) { return entry.fd < 0; })) return;
    if (poll(list.data(), list.size(), 50) <= 0) continue;
    stop = Clock::now() + kDrainTime;
    for (size_t index = 0; index < streams_.size(); ++index) {
      if (list[index].revents != 0) streams_[index].read_some();
      if (streams_[index].sink().broken()) streams_[index].close();
    }
    if (list[list.size() - 2].revents != 0) output_.write_some();
    if (list[list.size() - 1].revents != 0) errors_.write_some();
  }
  for (LineStream& stream : streams_) stream.close();
  output_.write_some();
  errors_.write_some();
}

void Job::say(const std::string& text) { errors_.add("rondo-run: " + text + "\n"); }

std::string Job::running_ranks() const {
  constexpr size_t kNamedMax = 16;
  std::vector<uint32_t> ranks;
  for (size_t index = 0; index < processes_.size(); ++index) {
    if (!has_ended_[index]) ranks.push_back(processes_[index].rank);
  }
  const size_t more = ranks.size() > kNamedMax ? ranks.size() - kNamedMax : 0;
  if (more > 0) ranks.resize(kNamedMax);
  return fmt::format("rank{} {}{}", ranks.size() == 1 ? "" : "s", fmt::join(ranks, " "),
                     more > 0 ? fmt::format(" and {} more", more) : "");
}

}  // namespace rondo::run
