#include "perf/options.h"

#include <algorithm>
#include <cmath>
#include <cstdlib>

#include <fmt/format.h>
#include <CLI/CLI.hpp>

#include "rondo/version.h"

namespace rondo::perf {
namespace {

constexpr int kExitUsage = 2;
constexpr int kRedOps = RONDO_BXOR + 1;
constexpr int kDTypes = RONDO_UINT16 + 1;

// The arguments as words, before they are looked up.
struct Words {
  std::vector<std::string> kinds;
  std::vector<std::string> dtypes = {"float32"};
  std::vector<std::string> redops = {"sum"};
  std::string first = "8", last = "16M", step, root = "0", in_place = "both";
};

void describe_sizes(CLI::App& app, Options& options, Words& words) {
  app.add_option("-b,--min", words.first, "smallest size in bytes (K, M, G: binary)")->capture_default_str();
  app.add_option("-e,--max", words.last, "largest size")->capture_default_str();
  app.add_option("-f,--factor", options.factor, "ratio of one size to the one before")
      ->check(CLI::Range(1.0001, 1e9))
      ->capture_default_str();
  app.add_option("-i,--step", words.step, "difference between sizes, instead of a ratio");
  app.add_option("-n,--iterations", options.iterations, "timed iterations per size; 0: about 0.3 s of them")
      ->check(CLI::Range(0u, 10'000'000u))
      ->capture_default_str();
  app.add_option("-w,--warmup", options.warmup, "iterations before the timed ones, at least 1")->capture_default_str();
  app.add_option("--burst", options.burst,
                 "calls per timed iteration, without a barrier between them; 0: as many as take about 50 us")
      ->check(CLI::Range(0u, 100'000u))
      ->capture_default_str();
}

void describe_choices(CLI::App& app, Options& options) {
  CLI::Option* regret = app.add_flag(
      "--regret", options.regret,
      "compare the algorithm that is chosen for each size with every other that could be forced; the exit code "
      "is 1 when a choice is clearly slower than it need be");
  CLI::Option* tune = app.add_flag("--tune", options.tune,
                                   "measure which other algorithms, of those that give the same bits, are clearly "
                                   "quicker than the default, and keep them for later jobs of this many ranks on "
                                   "this kind of machine");
  tune->excludes(regret);
  app.add_option(
         "--output", options.output,
         "the file that --tune writes, for RONDO_TUNE; by default rondo/tuning in the user's cache folder, where "
         "every job looks")
      ->needs(tune);
}

void describe(CLI::App& app, Options& options, Words& words) {
  app.set_version_flag("--version", "rondo-perf " RONDO_VERSION_STRING);
  app.add_option("collective", words.kinds,
                 "allreduce, reduce, broadcast, allgather, reduce_scatter, alltoall, gather, scatter, barrier, "
                 "sendrecv; several, or all; by default allreduce, and all with --tune");
  describe_sizes(app, options, words);
  app.add_option("-d,--dtype", words.dtypes, "element types, comma separated, or all")
      ->delimiter(',')
      ->capture_default_str();
  app.add_option("-o,--op", words.redops, "operators, comma separated, or all: sum prod max min avg band bor bxor")
      ->delimiter(',')
      ->capture_default_str();
  app.add_option("-r,--root", words.root, "root rank, or all")->capture_default_str();
  app.add_option("-a,--algorithm", options.algorithm, "force an algorithm: ring, or allreduce:ring;broadcast:^chain");
  app.add_option("-t,--transports", options.transports, "allowed transports: shm,tcp");
  app.add_option("-c,--check", options.check, "1: check every result, 0: do not")->capture_default_str();
  app.add_flag("--verify-only", options.verify_only, "check two iterations of each size and report no times");
  describe_choices(app, options);
  app.add_flag("--alloc", options.shared_memory, "buffers from rondo_alloc instead of private memory");
  app.add_flag("--persistent", options.persistent,
               "measure persistent operations (rondo_start and rondo_op_wait) instead of blocking calls");
  app.add_option("--in-place", words.in_place, "which forms to measure: both, yes or no")
      ->check(CLI::IsMember({"both", "yes", "no"}))
      ->capture_default_str();
  app.add_option("--json", options.json, "write the results as JSON to this file (-: stdout, without the table)");
  app.add_option("--csv", options.csv, "write the results as CSV to this file (-: stdout, without the table)");
  app.add_option("--plot", options.plot, "draw latency and bandwidth against size into this SVG file");
  app.add_flag("-q,--quiet", options.quiet, "print only the last line and errors");
}

// Each look-up returns why it failed, or nothing.
std::string find_kinds(const std::vector<std::string>& words, std::vector<Kind>& kinds) {
  for (const std::string& word : words) {
    if (word == "all") {
      for (size_t index = 0; index < kKindCount; ++index) kinds.push_back(static_cast<Kind>(index));
      continue;
    }
    const KindInfo* row = kind_named(word);
    if (row == nullptr) return fmt::format("no collective is named '{}'", word);
    kinds.push_back(row->kind);
  }
  return {};
}

template <class Value>
std::string find_values(const std::vector<std::string>& words, const char* what, int count, const char* (*name)(Value),
                        std::vector<Value>& values) {
  for (const std::string& word : words) {
    bool found = false;
    for (int index = 0; index < count; ++index) {
      const auto value = static_cast<Value>(index);
      if (word != "all" && word != name(value)) continue;
      values.push_back(value);
      found = true;
    }
    if (!found) return fmt::format("no {} is named '{}'", what, word);
  }
  return {};
}

std::string find_sizes(const Words& words, Options& options) {
  if (!parse_bytes(words.first, options.bytes_first)) return fmt::format("'{}' is no size", words.first);
  if (!parse_bytes(words.last, options.bytes_last)) return fmt::format("'{}' is no size", words.last);
  if (!words.step.empty() && (!parse_bytes(words.step, options.step) || options.step == 0)) {
    return fmt::format("'{}' is no step", words.step);
  }
  if (options.bytes_last < options.bytes_first) {
    return fmt::format("the largest size {} is below the smallest {}", options.bytes_last, options.bytes_first);
  }
  return {};
}

// Why --tune cannot be had with the rest.
std::string tune_fault(const Words& words, const Options& options) {
  if (options.dtypes.size() > 1 || options.redops.size() > 1 || words.root == "all")
    return "--tune takes one element type, one operator and one root: choices do not depend on them";
  if (!options.algorithm.empty()) return "--tune compares with the default: it takes no --algorithm";
  for (const Kind kind : options.kinds) {
    if (std::count(options.kinds.begin(), options.kinds.end(), kind) > 1)
      return fmt::format("--tune takes each collective once, {} is named again", info(kind).name);
    if (kind == Kind::sendrecv && options.kinds.size() == 1) return "--tune: sendrecv has no algorithms";
  }
  return {};
}

std::string look_up(const Words& words, Options& options) {
  const std::vector<std::string> usual = {options.tune ? "all" : "allreduce"};
  if (std::string text = find_kinds(words.kinds.empty() ? usual : words.kinds, options.kinds); !text.empty())
    return text;
  std::string text = find_values(words.dtypes, "element type", kDTypes, rondo_dtype_name, options.dtypes);
  if (!text.empty()) return text;
  text = find_values(words.redops, "operator", kRedOps, rondo_redop_name, options.redops);
  if (!text.empty()) return text;
  if (text = find_sizes(words, options); !text.empty()) return text;
  if ((options.tune || options.regret) && (options.verify_only || !(options.json + options.csv + options.plot).empty()))
    return "--tune and --regret take no --verify-only, --json, --csv or --plot";
  if (options.tune)
    if (text = tune_fault(words, options); !text.empty()) return text;
  if (options.persistent &&
      std::find(options.kinds.begin(), options.kinds.end(), Kind::sendrecv) != options.kinds.end())
    return "sendrecv has no persistent form";
  if (options.json == "-" || options.csv == "-") options.quiet = true;
  options.forms = words.in_place == "both"  ? Forms::both
                  : words.in_place == "yes" ? Forms::in_place
                                            : Forms::out_of_place;
  if (words.root == "all") {
    options.root = -1;
    return {};
  }
  char* end = nullptr;
  const long root = std::strtol(words.root.c_str(), &end, 10);
  if (words.root.empty() || *end != '\0' || root < 0 || root > INT32_MAX) {
    return fmt::format("'{}' is no rank", words.root);
  }
  options.root = static_cast<int32_t>(root);
  return {};
}

}  // namespace

bool parse_bytes(const std::string& text, size_t& bytes) {
  static constexpr std::string_view kUnits = "KMGT";
  char* end = nullptr;
  const double value = std::strtod(text.c_str(), &end);
  if (end == text.c_str() || !std::isfinite(value) || value < 0) return false;
  std::string suffix = end;
  double unit = 1;
  if (!suffix.empty() && suffix != "B") {
    const size_t power = kUnits.find(static_cast<char>(std::toupper(static_cast<unsigned char>(suffix[0]))));
    suffix.erase(0, 1);
    if (power == std::string_view::npos || (suffix != "" && suffix != "B" && suffix != "iB")) return false;
    unit = std::ldexp(1.0, 10 * (static_cast<int>(power) + 1));
  }
  if (value * unit > 0x1p53) return false;
  bytes = static_cast<size_t>(value * unit);
  return true;
}

std::vector<size_t> sizes(const Options& options) {
  std::vector<size_t> list;
  size_t bytes = options.bytes_first;
  while (bytes <= options.bytes_last) {
    list.push_back(bytes);
    const auto grown = static_cast<size_t>(static_cast<double>(bytes) * options.factor);
    bytes = options.step > 0 ? bytes + options.step : std::max(bytes + 1, grown);
  }
  return list;
}

bool parse(int count, char** arguments, Options& options, int& exit_code) {
  CLI::App app(
      "Measures and checks Rondo's collectives. Start it as every rank of a job (rondo-run -n 4 rondo-perf ...), or "
      "alone.\n"
      "The exit code is 0, 1 when a result was wrong, or 2 when the arguments or the run failed.",
      "rondo-perf");
  Words words;
  describe(app, options, words);
  try {
    app.parse(count, arguments);
  } catch (const CLI::ParseError& error) {
    exit_code = app.exit(error) == 0 ? 0 : kExitUsage;
    return false;
  }
  exit_code = kExitUsage;
  const std::string text = look_up(words, options);
  if (text.empty()) return true;
  std::fputs(fmt::format("rondo-perf: {}\n", text).c_str(), stderr);
  return false;
}

}  // namespace rondo::perf
