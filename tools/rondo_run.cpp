// rondo-run: starts a job's ranks on this host, shows their output by rank, forwards signals, and ends the whole job
// when one rank dies. It links nothing of Rondo: a launcher must work when the library does not.
#include <sys/stat.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <map>

#include <fmt/format.h>
#include <CLI/CLI.hpp>

#include "rondo/version.h"
#include "run/job.h"

namespace {

using rondo::run::Bind;
using rondo::run::OnDeath;
using rondo::run::Options;

constexpr int kExitUsage = 125;
constexpr uint32_t kRanksMax = 4096;

// The options whose words are not the values themselves.
struct Words {
  std::string bind = "core";
  std::string on_death = "end";
  bool no_prefix = false;
};

void describe_options(CLI::App& app, Options& options, Words& words) {
  app.set_version_flag("--version", "rondo-run " RONDO_VERSION_STRING);
  app.add_option("-n,--ranks", options.ranks, "number of ranks")->check(CLI::Range(1u, kRanksMax))->required();
  app.add_option(
         "--bind", words.bind,
         "bind each rank to its share of the cores (core) or NUMA nodes (numa), or not at all (none); where ranks "
         "outnumber cores, several share one")
      ->check(CLI::IsMember({"none", "core", "numa"}))
      ->capture_default_str();
  app.add_option("--grace", options.grace_s, "seconds the others have to end by themselves when a rank has died")
      ->check(CLI::Range(0.0, 1e6))
      ->capture_default_str();
  app.add_option("--on-death", words.on_death, "when a rank dies: end the job, or continue without it")
      ->check(CLI::IsMember({"end", "continue"}))
      ->capture_default_str();
  app.add_option("--timeout", options.timeout_s, "end the job after this many seconds, with exit code 124; 0: no limit")
      ->check(CLI::Range(0.0, 1e9))
      ->capture_default_str();
  app.add_flag("--no-prefix", words.no_prefix, "give the ranks the launcher's own stdout and stderr, unmerged");
  app.add_option("--output", options.output_dir, "write each rank's output to TEXT/rank-N.out and TEXT/rank-N.err");
  app.add_option("-x,--env", options.set_env, "set NAME=VALUE in every rank (repeat for more)")
      ->expected(1)
      ->multi_option_policy(CLI::MultiOptionPolicy::TakeAll)
      ->check([](const std::string& text) {
        const size_t equals = text.find('=');
        return equals == 0 || equals == std::string::npos ? "'" + text + "' is not NAME=VALUE" : std::string();
      });
  app.add_flag("-v,--verbose", options.verbose, "print the process id and the cpus of each rank");
}

void apply(const Words& words, Options& options) {
  static const std::map<std::string, Bind> kBinds = {{"none", Bind::none}, {"core", Bind::core}, {"numa", Bind::numa}};
  options.bind = kBinds.at(words.bind);
  options.on_death = words.on_death == "end" ? OnDeath::end : OnDeath::keep_going;
  options.prefix = !words.no_prefix;
}

// The command begins at the first argument that is neither an option of ours nor the value of one; everything from
// there on belongs to it, dashes included. CLI11 cannot be told so, hence the arguments are split before it sees them.
size_t command_start(int count, char** arguments) {
  static const char* const kWithValue[] = {"-n",        "--ranks",  "--bind", "--grace", "--on-death",
                                           "--timeout", "--output", "-x",     "--env"};
  for (int index = 1; index < count; ++index) {
    const std::string text = arguments[index];
    if (text == "--") return static_cast<size_t>(index);
    if (text.empty() || text[0] != '-') return static_cast<size_t>(index);
    for (const char* name : kWithValue) {
      if (text == name) ++index;
    }
  }
  return static_cast<size_t>(count);
}

int fail(const std::string& text, int exit_code) {
  std::fputs(("rondo-run: " + text + "\n").c_str(), stderr);
  return exit_code;
}

}  // namespace

int main(int count, char** arguments) {
  Options options;
  CLI::App app(
      "Starts COMMAND as a number of ranks on this host, shows their output by rank, and ends all when one dies.\n"
      "The exit code is that of the first rank that failed, 128 + N when signal N ended it; 125: rondo-run itself "
      "failed,\n"
      "126 and 127: COMMAND cannot be run or is not there.",
      "rondo-run");
  app.footer("rondo-run -n RANKS [OPTIONS] [--] COMMAND [ARGUMENT...]: options end where the command begins.");
  Words words;
  describe_options(app, options, words);
  const size_t start = std::min(command_start(count, arguments), static_cast<size_t>(count));
  try {
    std::vector<std::string> own(arguments + 1, arguments + std::max<size_t>(start, 1));
    std::reverse(own.begin(), own.end());
    app.parse(std::move(own));
  } catch (const CLI::ParseError& error) {
    return app.exit(error) == 0 ? 0 : kExitUsage;
  }
  apply(words, options);
  options.command.assign(arguments + start, arguments + count);
  if (!options.command.empty() && options.command.front() == "--") options.command.erase(options.command.begin());
  if (options.command.empty()) return fail("no command given; see rondo-run --help", kExitUsage);
  if (!options.output_dir.empty() && mkdir(options.output_dir.c_str(), 0777) != 0 && errno != EEXIST) {
    const int error = errno;
    return fail(fmt::format("{}: {} (errno {})", options.output_dir, strerror(error), error), kExitUsage);
  }

  rondo::run::Job job(std::move(options));
  int exit_code = 0;
  if (const std::string text = job.start(exit_code); !text.empty()) return fail(text, exit_code);
  return job.supervise();
}
