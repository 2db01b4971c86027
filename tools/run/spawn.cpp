#include "run/spawn.h"

#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <sched.h>
#include <signal.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/random.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>

#include <fmt/format.h>

extern char** environ;

namespace rondo::run {
namespace {

constexpr size_t kKeyBytes = 32;
// Inherited descriptors stay clear of the low numbers that shells and scripts use for themselves.
constexpr int kInheritedLeast = 40;
constexpr int kSpawnFailed = 127;

ErrorText system_text(const std::string& what) {
  const int error = errno;
  return fmt::format("{}: {} (errno {})", what, strerror(error), error);
}

ErrorText make_listener(uint32_t ranks, UniqueFd& listener, uint16_t& port) {
  listener = UniqueFd(socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
  if (listener.get() < 0) return system_text("socket for the rendezvous");
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  socklen_t bytes = sizeof(address);
  if (bind(listener.get(), reinterpret_cast<sockaddr*>(&address), bytes) != 0) {
    return system_text("bind 127.0.0.1 for the rendezvous");
  }
  if (listen(listener.get(), static_cast<int>(ranks) + 16) != 0) return system_text("listen for the rendezvous");
  if (getsockname(listener.get(), reinterpret_cast<sockaddr*>(&address), &bytes) != 0) {
    return system_text("getsockname of the rendezvous");
  }
  port = ntohs(address.sin_port);
  return {};
}

ErrorText make_key(UniqueFd& key) {
  std::array<unsigned char, kKeyBytes> random;
  if (getrandom(random.data(), random.size(), 0) != static_cast<ssize_t>(random.size())) {
    return system_text("random bytes for the job key");
  }
  std::string digits;
  for (unsigned char byte : random) digits += fmt::format("{:02x}", byte);
  digits += '\n';
  key = UniqueFd(memfd_create("rondo-key", MFD_CLOEXEC | MFD_ALLOW_SEALING));
  if (key.get() < 0) return system_text("memory for the job key");
  if (write(key.get(), digits.data(), digits.size()) != static_cast<ssize_t>(digits.size())) {
    return system_text("write of the job key");
  }
  if (fchmod(key.get(), S_IRUSR) != 0) return system_text("permissions of the job key");
  if (fcntl(key.get(), F_ADD_SEALS, F_SEAL_WRITE | F_SEAL_GROW | F_SEAL_SHRINK | F_SEAL_SEAL) != 0) {
    return system_text("seals of the job key");
  }
  return {};
}

// Moves a descriptor out of the low numbers where there is room for that.
void lift(UniqueFd& fd) {
  const int high = fcntl(fd.get(), F_DUPFD_CLOEXEC, kInheritedLeast);
  if (high >= 0) fd.reset(high);
}

// The environment of a rank: the launcher's own, without what an outer job may have left there.
std::vector<std::string> environment(const Options& options, const Meeting& meeting, uint32_t rank) {
  std::vector<std::string> ours = {
      fmt::format("RONDO_RANK={}", rank),
      fmt::format("RONDO_WORLD={}", options.ranks),
      fmt::format("RONDO_LOCAL_RANK={}", rank),
      fmt::format("RONDO_LOCAL_WORLD={}", options.ranks),
      fmt::format("RONDO_RENDEZVOUS=tcp://127.0.0.1:{}", meeting.port),
      fmt::format("RONDO_KEY_FILE=/proc/self/fd/{}", meeting.key.get()),
      fmt::format("RONDO_LISTEN_FD={}", rank == 0 ? meeting.listener.get() : -1),
  };
  if (rank != 0) ours.pop_back();
  ours.insert(ours.end(), options.set_env.begin(), options.set_env.end());
  std::vector<std::string> all;
  for (char** entry = environ; *entry != nullptr; ++entry) {
    const std::string_view text = *entry;
    const std::string_view name = text.substr(0, text.find('='));
    bool replaced = name == "RONDO_LISTEN_FD";
    for (const std::string& own : ours) replaced |= std::string_view(own).substr(0, own.find('=')) == name;
    if (!replaced) all.emplace_back(text);
  }
  all.insert(all.end(), ours.begin(), ours.end());
  return all;
}

std::vector<char*> pointers(const std::vector<std::string>& strings) {
  std::vector<char*> list;
  for (const std::string& text : strings) list.push_back(const_cast<char*>(text.c_str()));
  list.push_back(nullptr);
  return list;
}

// Everything a child needs, made before the fork so that the child itself allocates nothing.
struct ChildPlan {
  pid_t launcher;
  int input, output, errors;  // become 0, 1, 2; -1: inherited
  int listener, key;          // kept open; -1: none
  int report;                 // receives errno when the command cannot be run
  rlimit descriptors;
  const cpu_set_t* cpus;  // null: unbound
  size_t cpus_bytes;
  char** arguments;
  char** environment;
};

[[noreturn]] void child_fail(const ChildPlan& plan) {
  const int error = errno;
  (void)!write(plan.report, &error, sizeof(error));
  _exit(kSpawnFailed);
}

[[noreturn]] void run_child(const ChildPlan& plan) {
  setpgid(0, 0);
  prctl(PR_SET_PDEATHSIG, SIGKILL);
  if (getppid() != plan.launcher) _exit(kSpawnFailed);  // it died before the line above took effect
  const std::array<std::pair<int, int>, 3> standard = {{{plan.input, 0}, {plan.output, 1}, {plan.errors, 2}}};
  for (const auto& [from, to] : standard) {
    if (from >= 0 && dup2(from, to) < 0) child_fail(plan);
  }
  for (int kept : {plan.listener, plan.key}) {
    if (kept >= 0) fcntl(kept, F_SETFD, 0);
  }
  if (plan.cpus != nullptr) sched_setaffinity(0, plan.cpus_bytes, plan.cpus);
  setrlimit(RLIMIT_NOFILE, &plan.descriptors);
  for (int number : {SIGPIPE, SIGTTOU}) signal(number, SIG_DFL);
  sigset_t none;
  sigemptyset(&none);
  sigprocmask(SIG_SETMASK, &none, nullptr);
  execvpe(plan.arguments[0], plan.arguments, plan.environment);
  child_fail(plan);
}

ErrorText make_pipe(UniqueFd& read_end, UniqueFd& write_end) {
  int ends[2];
  if (pipe2(ends, O_CLOEXEC) != 0) return system_text("pipe");
  read_end = UniqueFd(ends[0]);
  write_end = UniqueFd(ends[1]);
  return {};
}

// Where a rank's stdout and stderr go: pipes to the launcher, files of its own, or nothing (inherited).
ErrorText make_outputs(const Options& options, uint32_t rank, Process& process, UniqueFd& output, UniqueFd& errors) {
  if (!options.output_dir.empty()) {
    for (auto [fd, suffix] : {std::pair(&output, "out"), std::pair(&errors, "err")}) {
      const std::string path = fmt::format("{}/rank-{}.{}", options.output_dir, rank, suffix);
      *fd = UniqueFd(open(path.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0666));
      if (fd->get() < 0) return system_text(path);
    }
    return {};
  }
  if (!options.prefix) return {};
  if (ErrorText text = make_pipe(process.output, output); !text.empty()) return text;
  return make_pipe(process.errors, errors);
}

// Rank 0 reads what the launcher's stdin gives unless that is a terminal: a process group in the background that reads
// its terminal is stopped. All others read nothing.
UniqueFd make_input(uint32_t rank) {
  if (rank == 0 && isatty(0) == 0 && fcntl(0, F_GETFD) >= 0) return UniqueFd();
  return UniqueFd(open("/dev/null", O_RDONLY | O_CLOEXEC));
}

struct CpuMask {
  explicit CpuMask(const CpuList& cpus) {
    if (cpus.empty()) return;
    int highest = 0;
    for (int cpu : cpus) highest = std::max(highest, cpu);
    set = CPU_ALLOC(highest + 1);
    if (set == nullptr) return;
    bytes = CPU_ALLOC_SIZE(highest + 1);
    CPU_ZERO_S(bytes, set);
    for (int cpu : cpus) CPU_SET_S(cpu, bytes, set);
  }
  CpuMask(const CpuMask&) = delete;
  CpuMask& operator=(const CpuMask&) = delete;
  ~CpuMask() { CPU_FREE(set); }

  cpu_set_t* set = nullptr;
  size_t bytes = 0;
};

}  // namespace

rlimit raise_descriptor_limit() {
  rlimit original{};
  getrlimit(RLIMIT_NOFILE, &original);
  rlimit raised = original;
  raised.rlim_cur = raised.rlim_max;
  setrlimit(RLIMIT_NOFILE, &raised);
  return original;
}

ErrorText make_meeting(uint32_t ranks, Meeting& meeting) {
  if (ErrorText text = make_listener(ranks, meeting.listener, meeting.port); !text.empty()) return text;
  if (ErrorText text = make_key(meeting.key); !text.empty()) return text;
  lift(meeting.listener);
  lift(meeting.key);
  return {};
}

ErrorText spawn(const Options& options, const Meeting& meeting, uint32_t rank, const CpuList& cpus, Process& process,
                int& error_number) {
  error_number = 0;
  process.rank = rank;
  UniqueFd output, errors, report_read, report_write;
  if (ErrorText text = make_outputs(options, rank, process, output, errors); !text.empty()) return text;
  if (ErrorText text = make_pipe(report_read, report_write); !text.empty()) return text;
  const UniqueFd input = make_input(rank);
  const CpuMask mask(cpus);
  const std::vector<std::string> variables = environment(options, meeting, rank);
  std::vector<char*> environment_list = pointers(variables);
  std::vector<char*> arguments = pointers(options.command);
  const ChildPlan plan = {getpid(),
                          input.get(),
                          output.get(),
                          errors.get(),
                          rank == 0 ? meeting.listener.get() : -1,
                          meeting.key.get(),
                          report_write.get(),
                          meeting.descriptors,
                          mask.set,
                          mask.bytes,
                          arguments.data(),
                          environment_list.data()};
  const pid_t pid = fork();
  if (pid < 0) return system_text(fmt::format("fork for rank {}", rank));
  if (pid == 0) run_child(plan);
  setpgid(pid, pid);  // in both, so that it holds whichever runs first
  process.pid = pid;
  process.pidfd = UniqueFd(static_cast<int>(syscall(SYS_pidfd_open, pid, 0)));
  if (process.pidfd.get() < 0) {
    const ErrorText text = system_text(fmt::format("pidfd of rank {}", rank));
    kill(pid, SIGKILL);
    waitpid(pid, nullptr, 0);
    return text;
  }
  report_write.reset();
  const ssize_t got = read(report_read.get(), &error_number, sizeof(error_number));
  if (got != sizeof(error_number)) error_number = 0;
  if (error_number == 0) return {};
  waitpid(pid, nullptr, 0);
  process.pid = 0;
  return fmt::format("cannot run '{}': {} (errno {})", options.command.front(), strerror(error_number), error_number);
}

UniqueFd start_guardian(const std::vector<Process>& processes, pid_t& pid) {
  pid = 0;
  UniqueFd read_end, write_end;
  if (!make_pipe(read_end, write_end).empty()) return UniqueFd();
  pid = fork();
  if (pid < 0) pid = 0;
  if (pid != 0) return write_end;
  setsid();
  prctl(PR_SET_NAME, "rondo-run-guard");
  for (int number = 1; number < NSIG; ++number) signal(number, SIG_IGN);
  // Nothing of the launcher's may be held open from here, above all not the ends of pipes others wait on.
  const int kept = dup2(read_end.get(), 0);
  close_range(1, ~0U, 0);
  char byte = 0;
  ssize_t got = -1;
  while (kept == 0 && (got = read(0, &byte, 1)) < 0 && errno == EINTR) {
  }
  if (got == 0) {
    for (const Process& process : processes) kill(-process.pid, SIGKILL);
  }
  _exit(0);
}

}  // namespace rondo::run
