// rondo-run as its users meet it: the built program, run on small shell scripts.
#include <sys/stat.h>

#include <catch2/catch.hpp>
#include <chrono>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <set>
#include <sstream>

#include "command.h"
#include "run/cpus.h"
#include "run/output.h"

namespace {

using rondo::test::Command;
using rondo::test::gone;
using rondo::test::Outcome;
using rondo::test::run_command;

std::vector<std::string> launcher(std::vector<std::string> arguments) {
  arguments.insert(arguments.begin(), RONDO_RUN_PROGRAM);
  return arguments;
}

Outcome run(std::vector<std::string> arguments) { return run_command(launcher(std::move(arguments))); }

std::multiset<std::string> lines(const std::string& text) {
  std::multiset<std::string> result;
  std::istringstream stream(text);
  for (std::string line; std::getline(stream, line);) result.insert(line);
  return result;
}

size_t count_of(const std::string& text, const std::string& part) {
  size_t count = 0;
  for (size_t at = text.find(part); at != std::string::npos; at = text.find(part, at + 1)) ++count;
  return count;
}

double seconds_since(std::chrono::steady_clock::time_point start) {
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
}

}  // namespace

TEST_CASE("every rank is told who it is, and only rank 0 gets the listening socket") {
  const Outcome outcome = run({"-n", "3", "sh", "-c",
                               "echo $RONDO_RANK/$RONDO_WORLD $RONDO_LOCAL_RANK/$RONDO_LOCAL_WORLD "
                               "${RONDO_LISTEN_FD:+listens}"});
  REQUIRE(outcome.err == "");
  REQUIRE(outcome.exit_code == 0);
  REQUIRE(lines(outcome.out) == std::multiset<std::string>{"[0] 0/3 0/3 listens", "[1] 1/3 1/3", "[2] 2/3 2/3"});
}

TEST_CASE("all ranks read the same key of 64 hexadecimal digits, which is in no environment") {
  const Outcome outcome = run({"-n", "3", "--no-prefix", "sh", "-c", "cat $RONDO_KEY_FILE"});
  const auto keys = lines(outcome.out);
  REQUIRE(keys.size() == 3);
  const std::string key = *keys.begin();
  REQUIRE(keys.count(key) == 3);
  REQUIRE(key.size() == 64);
  REQUIRE(key.find_first_not_of("0123456789abcdef") == std::string::npos);
  const Outcome again = run({"-n", "1", "--no-prefix", "sh", "-c", "cat $RONDO_KEY_FILE; env"});
  REQUIRE(again.out.find(key) == std::string::npos);
  REQUIRE(count_of(again.out, again.out.substr(0, 64)) == 1);
}

TEST_CASE("the key cannot be changed by a rank") {
  const Outcome outcome = run({"-n", "1", "sh", "-c", "echo 0 > $RONDO_KEY_FILE; cat $RONDO_KEY_FILE | wc -c"});
  REQUIRE(outcome.out == "[0] 65\n");
}

TEST_CASE("the rendezvous names the socket that rank 0 has inherited") {
  const Outcome outcome = run({"-n", "1", "bash", "-c",
                               "exec 3<>/dev/tcp/127.0.0.1/${RONDO_RENDEZVOUS##*:} && test -S /proc/self/fd/"
                               "$RONDO_LISTEN_FD && echo connected"});
  REQUIRE(outcome.out == "[0] connected\n");
}

TEST_CASE("an outer job's variables do not leak into the ranks") {
  setenv("RONDO_RANK", "7", 1);
  setenv("RONDO_LISTEN_FD", "99", 1);
  const Outcome outcome = run({"-n", "2", "sh", "-c", "env | grep -c RONDO_RANK; echo fd ${RONDO_LISTEN_FD:-none}"});
  unsetenv("RONDO_RANK");
  unsetenv("RONDO_LISTEN_FD");
  REQUIRE(count_of(outcome.out, "] 1\n") == 2);
  REQUIRE(count_of(outcome.out, "[1] fd none\n") == 1);
}

TEST_CASE("lines are prefixed whole, and an unfinished last line is shown") {
  const Outcome outcome = run({"-n", "2", "sh", "-c", "printf 'a\\n\\nb'; printf 'e\\n' >&2"});
  REQUIRE(lines(outcome.out) == std::multiset<std::string>{"[0] ", "[0] a", "[0] b", "[1] ", "[1] a", "[1] b"});
  REQUIRE(lines(outcome.err) == std::multiset<std::string>{"[0] e", "[1] e"});
}

TEST_CASE("lines of 64 KiB from four ranks are never interleaved") {
  const Outcome outcome =
      run({"-n", "4", "sh", "-c",
           "for i in 1 2 3 4 5 6 7 8; do head -c 65536 /dev/zero | tr '\\0' $RONDO_RANK; echo; done"});
  REQUIRE(outcome.exit_code == 0);
  std::multiset<std::string> expected;
  for (char rank = '0'; rank < '4'; ++rank) {
    for (int line = 0; line < 8; ++line) expected.insert(std::string("[") + rank + "] " + std::string(65536, rank));
  }
  REQUIRE((lines(outcome.out) == expected));
}

TEST_CASE("the exit code is that of the first rank that fails, named with its code") {
  const Outcome outcome =
      run({"-n", "3", "--grace", "0.1", "sh", "-c", "if [ $RONDO_RANK = 1 ]; then exit 7; fi; sleep 60"});
  REQUIRE(outcome.exit_code == 7);
  REQUIRE(outcome.err.find("rondo-run: rank 1 (pid ") == 0);
  REQUIRE(outcome.err.find(") ended with exit code 7\n") != std::string::npos);
  REQUIRE(count_of(outcome.err, "ended with exit code") == 1);
}

TEST_CASE("a rank that a signal ended is named with its signal, and the exit code says so") {
  const Outcome outcome =
      run({"-n", "2", "--grace", "0.1", "sh", "-c", "[ $RONDO_RANK = 1 ] && kill -SEGV $$; sleep 60"});
  REQUIRE(outcome.exit_code == 128 + SIGSEGV);
  REQUIRE(outcome.err.find("rank 1 (pid ") != std::string::npos);
  REQUIRE(outcome.err.find("was ended by signal 11 (SIGSEGV)") != std::string::npos);
}

TEST_CASE("the others may end by themselves within the grace time") {
  const auto start = std::chrono::steady_clock::now();
  const Outcome outcome = run(
      {"-n", "2", "--grace", "30", "sh", "-c", "if [ $RONDO_RANK = 0 ]; then exit 3; fi; sleep 0.3; echo finished"});
  REQUIRE(outcome.exit_code == 3);
  REQUIRE(outcome.out == "[1] finished\n");
  REQUIRE(seconds_since(start) < 15);
}

TEST_CASE("a rank that ignores SIGTERM is killed") {
  const Outcome outcome =
      run({"-n", "2", "--grace", "0", "sh", "-c",
           "if [ $RONDO_RANK = 0 ]; then sleep 0.3; exit 3; fi; trap '' TERM; while :; do sleep 0.1; done"});
  REQUIRE_FALSE(outcome.expired);
  REQUIRE(outcome.exit_code == 3);
}

TEST_CASE("a stopped rank is ended too") {
  const Outcome outcome = run({"-n", "2", "--grace", "0.2", "sh", "-c",
                               "if [ $RONDO_RANK = 0 ]; then sleep 0.3; exit 3; fi; kill -STOP $$; sleep 60"});
  REQUIRE_FALSE(outcome.expired);
  REQUIRE(outcome.exit_code == 3);
}

TEST_CASE("with --on-death continue the others run to their end") {
  const Outcome outcome = run({"-n", "2", "--grace", "0", "--on-death", "continue", "sh", "-c",
                               "if [ $RONDO_RANK = 0 ]; then exit 4; fi; sleep 0.5; echo finished"});
  REQUIRE(outcome.exit_code == 4);
  REQUIRE(outcome.out == "[1] finished\n");
}

TEST_CASE("a job that outlives its time limit ends with 124") {
  const Outcome outcome = run({"-n", "2", "--timeout", "0.2", "sleep", "60"});
  REQUIRE(outcome.exit_code == 124);
  REQUIRE(outcome.err.find("the job has run for 0.2 s, its time limit") != std::string::npos);
}

TEST_CASE("a program that is not there is named, with 127, and one that cannot be run with 126") {
  const Outcome missing = run({"-n", "2", "no-such-program"});
  REQUIRE(missing.exit_code == 127);
  REQUIRE(missing.err == "rondo-run: cannot run 'no-such-program': No such file or directory (errno 2)\n");
  const Outcome forbidden = run({"-n", "2", "/dev/null"});
  REQUIRE(forbidden.exit_code == 126);
}

TEST_CASE("wrong arguments end with 125 and say what is wrong") {
  REQUIRE(run({"-n", "0", "true"}).exit_code == 125);
  REQUIRE(run({"true"}).exit_code == 125);
  REQUIRE(run({"-n", "2", "--bind", "socket", "true"}).exit_code == 125);
  REQUIRE(run({"-n", "2", "-x", "NOVALUE", "true"}).exit_code == 125);
  const Outcome none = run({"-n", "2"});
  REQUIRE(none.exit_code == 125);
  REQUIRE(none.err.find("no command given") != std::string::npos);
}

TEST_CASE("options after the command belong to the command") {
  const Outcome outcome = run({"-n", "1", "-x", "A=b c", "sh", "-c", "echo $A $0 $1", "-n", "--grace"});
  REQUIRE(outcome.out == "[0] b c -n --grace\n");
}

TEST_CASE("signals reach every rank, and their exit codes count") {
  for (const int number : {SIGINT, SIGTERM, SIGHUP}) {
    Command command(launcher(
        {"-n", "2", "sh", "-c", "trap 'echo caught; exit 9' INT TERM HUP; echo ready; while :; do sleep 0.05; done"}));
    REQUIRE(command.wait_for_output("[0] ready"));
    REQUIRE(command.wait_for_output("[1] ready"));
    kill(command.pid(), number);
    const Outcome outcome = command.finish();
    REQUIRE(outcome.exit_code == 9);
    REQUIRE(count_of(outcome.out, "caught") == 2);
  }
}

TEST_CASE("a second interrupt kills ranks that ignore the first, without the grace time") {
  Command command(
      launcher({"-n", "2", "--grace", "600", "sh", "-c", "trap '' INT; echo ready; while :; do sleep 0.05; done"}));
  REQUIRE(command.wait_for_output("[0] ready"));
  REQUIRE(command.wait_for_output("[1] ready"));
  kill(command.pid(), SIGINT);
  kill(command.pid(), SIGTERM);
  const Outcome outcome = command.finish();
  REQUIRE_FALSE(outcome.expired);
  REQUIRE(outcome.exit_code > 128);
  REQUIRE(outcome.err.find("after an earlier signal: killing rank") != std::string::npos);
}

TEST_CASE("killing the launcher leaves neither ranks nor their children") {
  Command command(launcher({"-n", "2", "sh", "-c", "sleep 60 & echo pid $$ child $!; wait"}));
  REQUIRE(command.wait_for_output("[0] pid"));
  REQUIRE(command.wait_for_output("[1] pid"));
  std::vector<pid_t> pids;
  std::istringstream words(command.out());
  for (std::string word; words >> word;) {
    if (word == "pid" || word == "child") {
      pids.emplace_back();
      words >> pids.back();
    }
  }
  REQUIRE(pids.size() == 4);
  kill(command.pid(), SIGKILL);
  REQUIRE(command.finish().exit_code == 128 + SIGKILL);
  for (pid_t pid : pids) REQUIRE(gone(pid));
}

TEST_CASE("what a rank leaves running in its group ends with the job") {
  const Outcome outcome = run({"-n", "1", "sh", "-c", "sleep 60 & echo $!"});
  REQUIRE(outcome.exit_code == 0);
  REQUIRE(outcome.out.rfind("[0] ", 0) == 0);
  REQUIRE(gone(std::stoi(outcome.out.substr(4))));
}

TEST_CASE("ranks are bound to cores of their own where there are enough") {
  const Outcome outcome = run({"-n", "1", "--no-prefix", "--bind", "none", "nproc"});
  const int cpus = std::stoi(outcome.out);
  REQUIRE(std::stoi(run({"-n", "1", "--no-prefix", "--bind", "core", "nproc"}).out) == cpus);
  if (cpus < 2) return;
  const Outcome bound = run({"-n", "2", "--bind", "core", "sh", "-c", "grep Cpus_allowed_list /proc/self/status"});
  auto masks = lines(bound.out);
  REQUIRE(masks.size() == 2);
  REQUIRE(masks.begin()->substr(4) != masks.rbegin()->substr(4));
}

TEST_CASE("with --output each rank writes files of its own") {
  char pattern[] = "/tmp/rondo-run-test-XXXXXX";
  REQUIRE(mkdtemp(pattern) != nullptr);
  const std::string folder = pattern;
  const Outcome outcome = run({"-n", "2", "--output", folder + "/out", "sh", "-c", "echo o$RONDO_RANK; echo e >&2"});
  REQUIRE(outcome.out == "");
  for (const char* rank : {"0", "1"}) {
    std::string line;
    std::getline(std::ifstream(folder + "/out/rank-" + rank + ".out") >> std::ws, line);
    REQUIRE(line == std::string("o") + rank);
  }
  std::filesystem::remove_all(folder);
}

TEST_CASE("many ranks start under a small descriptor limit and keep that limit") {
  const std::string program = RONDO_RUN_PROGRAM;
  const Outcome outcome =
      run_command({"/bin/sh", "-c", "ulimit -Sn 64; exec " + program + " -n 32 sh -c 'ulimit -Sn'"});
  REQUIRE(outcome.exit_code == 0);
  REQUIRE(count_of(outcome.out, "] 64\n") + count_of(outcome.out, "]  64\n") == 32);
}

TEST_CASE("a reader that leaves ends the ranks by SIGPIPE, as without a launcher") {
  const std::string program = RONDO_RUN_PROGRAM;
  const Outcome outcome = run_command({"/bin/bash", "-c", program + " -n 2 yes | head -n 1; exit ${PIPESTATUS[0]}"});
  REQUIRE_FALSE(outcome.expired);
  REQUIRE(outcome.exit_code == 128 + SIGPIPE);
}

TEST_CASE("nothing is lost on the way to a slow reader") {
  const std::string program = RONDO_RUN_PROGRAM;
  const Outcome outcome = run_command({"/bin/bash", "-c", program + " -n 2 seq 200000 | (sleep 0.3; wc -l)"});
  REQUIRE(outcome.out == "400000\n");
}

TEST_CASE("cpu lists are read as the kernel writes them, and bad text ends the list") {
  using rondo::run::CpuList;
  using rondo::run::parse_cpu_list;
  REQUIRE(parse_cpu_list("0-2,5,8-9") == CpuList{0, 1, 2, 5, 8, 9});
  REQUIRE(parse_cpu_list("3\n") == CpuList{3});
  REQUIRE(parse_cpu_list("").empty());
  REQUIRE(parse_cpu_list("x").empty());
  REQUIRE(parse_cpu_list("1,5-2") == CpuList{1});
  REQUIRE(parse_cpu_list("0-999999999").empty());
}

TEST_CASE("cores are divided evenly, none shared while there are enough, all used") {
  using rondo::run::CpuList;
  for (size_t groups = 1; groups <= 9; ++groups) {
    std::vector<CpuList> cores;
    for (size_t core = 0; core < groups; ++core) cores.push_back({static_cast<int>(core)});
    for (uint32_t ranks = 1; ranks <= 9; ++ranks) {
      const auto lists = rondo::run::divide(cores, ranks);
      std::multiset<int> used;
      for (const CpuList& list : lists) {
        REQUIRE(!list.empty());
        REQUIRE(list.size() <= groups / ranks + 1);
        used.insert(list.begin(), list.end());
      }
      if (ranks <= groups) REQUIRE(used.size() == groups);
    }
  }
}

TEST_CASE("a line beyond the limit is broken instead of kept without bound") {
  rondo::run::Sink sink(open("/dev/null", O_WRONLY | O_CLOEXEC));
  rondo::run::LineStream stream(-1, "[0] ", sink);
  stream.take(std::string(rondo::run::LineStream::kLineMax, 'x'));
  REQUIRE_FALSE(sink.empty());
}
