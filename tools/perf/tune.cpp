#include "perf/tune.h"

#include <unistd.h>

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <sstream>

#include <fmt/format.h>

#include "perf/contest.h"
#include "perf/report.h"

namespace rondo::perf {
namespace {

constexpr const char* kHead = "rondo tuning 1";
constexpr const char* kDefault = "default";
constexpr size_t kMostBytes = 32 << 10;  // that the library reads
constexpr size_t kSmallBytes = 8;

struct Section {
  std::string key, lines;
};

std::string version_of(const std::string& key) { return key.substr(0, key.find(';')); }

ErrorText read_sections(const std::string& text, std::vector<Section>& sections) {
  std::istringstream lines(text);
  bool headed = false;
  for (std::string line; std::getline(lines, line);) {
    if (line.find_first_not_of(" \t\r") == std::string::npos) continue;
    const size_t end = line.rfind(']');
    if (!headed) {
      if (line != kHead) return fmt::format("its first line is not '{}'", kHead);
      headed = true;
    } else if (line.front() == '[' && end != std::string::npos) {
      sections.push_back({line.substr(1, end - 1), {}});
    } else if (!sections.empty()) {
      sections.back().lines += line + "\n";
    }
  }
  return {};
}

std::string without(const std::string& rows, const std::vector<std::string>& collectives) {
  std::istringstream lines(rows);
  std::string kept;
  for (std::string line; std::getline(lines, line);) {
    const std::string collective = line.substr(0, line.find(' '));
    if (std::find(collectives.begin(), collectives.end(), collective) == collectives.end()) kept += line + "\n";
  }
  return kept;
}

std::string file_text(const std::vector<Section>& sections) {
  std::string text = std::string(kHead) + "\n";
  for (const Section& section : sections) text += fmt::format("\n[{}]\n{}", section.key, section.lines);
  return text;
}

// Where the library looks when it is not told otherwise.
ErrorText usual_path(std::string& path) {
  const char* cache = std::getenv("XDG_CACHE_HOME");
  const char* home = std::getenv("HOME");
  if (cache == nullptr && home == nullptr) return "neither XDG_CACHE_HOME nor HOME is set; --output names the file";
  path = cache != nullptr ? fmt::format("{}/rondo/tuning", cache) : fmt::format("{}/.cache/rondo/tuning", home);
  return {};
}

// Whole or not at all, as another job may be reading it.
ErrorText replace_file(const std::string& path, const std::string& text) {
  const std::filesystem::path folder = std::filesystem::path(path).parent_path();
  std::error_code error;
  if (!folder.empty()) std::filesystem::create_directories(folder, error);
  const std::string fresh = fmt::format("{}.{}", path, getpid());
  if (ErrorText failed = write_file(fresh, text); !failed.empty()) return failed;
  std::filesystem::rename(fresh, path, error);
  if (!error) return {};
  std::error_code ignored;
  std::filesystem::remove(fresh, ignored);
  return fmt::format("{}: {}", path, error.message());
}

Verdict verdict_of(const Call& call, const std::string& chosen, const Contest& contest) {
  Verdict verdict = {info(call.kind).name, call.count * rondo_dtype_size(call.dtype), kDefault, {}};
  Regret best;
  for (const Contest::Rival& rival : contest.rivals) {
    if (rival.regret.lower < kTuneLeast || rival.regret.median <= best.median) continue;
    best = rival.regret;
    verdict.algorithm = rival.name;
  }
  if (best.median > 0)
    verdict.comment = fmt::format("{} took {:.2f} times as long (at least {:.2f})", chosen, best.median, best.lower);
  return verdict;
}

}  // namespace

std::string tuning_rows(const std::vector<Verdict>& verdicts) {
  std::string rows;
  const auto add = [&](const Verdict& verdict, size_t most) {
    rows += fmt::format("{} {} {}{}{}\n", verdict.collective, most, verdict.algorithm,
                        verdict.comment.empty() ? "" : "  # ", verdict.comment);
  };
  if (!verdicts.empty() && verdicts.front().bytes > kSmallBytes && verdicts.front().algorithm != kDefault)
    add({verdicts.front().collective, 0, kDefault, {}}, verdicts.front().bytes - 1);
  for (size_t i = 0; i < verdicts.size(); ++i) {
    const Verdict& verdict = verdicts[i];
    const bool last = i + 1 == verdicts.size();
    if (!last && verdicts[i + 1].algorithm == verdict.algorithm) continue;
    const double product =
        static_cast<double>(verdict.bytes) * static_cast<double>(last ? verdict.bytes : verdicts[i + 1].bytes);
    add(verdict, last ? verdict.bytes : std::max(verdict.bytes, static_cast<size_t>(std::sqrt(product))));
  }
  return rows;
}

ErrorText merge_tuning(const std::string& before, const std::string& key, const std::vector<std::string>& collectives,
                       const std::string& rows, std::string& after) {
  std::vector<Section> sections;
  if (ErrorText text = read_sections(before, sections); !text.empty()) return text;
  Section own = {key, {}};
  std::vector<Section> kept;
  for (const Section& section : sections) {
    if (section.key == key) {
      own.lines = without(section.lines, collectives);
    } else if (version_of(section.key) == version_of(key)) {
      kept.push_back(section);
    }
  }
  own.lines += rows;
  kept.push_back(own);
  while (file_text(kept).size() > kMostBytes && kept.size() > 1) kept.erase(kept.begin());
  after = file_text(kept);
  return after.size() <= kMostBytes ? ""
                                    : fmt::format("{} bytes of rows are more than the library reads", after.size());
}

ErrorText tune(const Job& job, const Options& options, const std::vector<Call>& calls, size_t in_bytes,
               size_t out_bytes, bool speaks) {
  if (job.local_world() != job.world()) return "--tune needs all ranks on one host";
  std::string path = options.output;
  if (path.empty())
    if (ErrorText text = usual_path(path); !text.empty()) return text;
  const auto say = [&](const std::string& text) {
    if (!speaks) return;
    std::fputs(text.c_str(), stdout);
    std::fflush(stdout);
  };
  say(
      fmt::format("# an algorithm of the same sums replaces the default where the lower bound (95 %) of the median of "
                  "default / it is {} or more; {} interleaved rounds\n# {:>14} {:>12} {:>12} {:>20} {:>20}\n",
                  kTuneLeast, kContestRounds, "collective", "bytes", "default us", "default", "kept"));
  Alternatives alternatives(job, options, in_bytes, out_bytes);
  uint64_t seed = 0;
  std::vector<std::string> collectives;
  std::string rows;
  std::vector<Verdict> verdicts;  // of one collective
  for (const Call& call : calls) {
    if (call.kind == Kind::sendrecv) continue;
    Values values(call.dtype, call.redop, info(call.kind).reduces, call.world);
    Contest contest;
    ErrorText text = hold_contest(job, options, call, job.tunable(call), alternatives, values, seed, contest);
    if (!text.empty()) return text;
    const std::string chosen = chosen_name(job.algorithm_of(call));
    const Verdict verdict = verdict_of(call, chosen, contest);
    say(fmt::format("  {:>14} {:>12} {:>12.2f} {:>20} {:>20}{}{}\n", verdict.collective, verdict.bytes,
                    contest.chosen_us, chosen, verdict.algorithm, verdict.comment.empty() ? "" : "  ",
                    verdict.comment));
    if (verdicts.empty() || verdicts.back().collective != verdict.collective) {
      rows += tuning_rows(verdicts);
      verdicts.clear();
      collectives.push_back(verdict.collective);
    }
    verdicts.push_back(verdict);
  }
  rows += tuning_rows(verdicts);
  if (!speaks || collectives.empty()) return {};
  std::ifstream file(path);
  const std::string before((std::istreambuf_iterator<char>(file)), std::istreambuf_iterator<char>());
  std::string after;
  if (ErrorText text = merge_tuning(before, job.tuning_section(calls.front()), collectives, rows, after); !text.empty())
    return fmt::format("{} is kept as it is: {}", path, text);
  if (ErrorText text = replace_file(path, after); !text.empty()) return text;
  say(fmt::format("# written to {}: [{}]\n{}", path, job.tuning_section(calls.front()), rows));
  return {};
}

}  // namespace rondo::perf
