#include "perf/tune.h"

#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cmath>
#include <cstdlib>
#include <cstring>
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

// The line as the library sees it: without a comment and blanks around it.
std::string bare(const std::string& line) {
  static constexpr const char* kBlanks = " \t\r";
  const std::string text = line.substr(0, line.find('#'));
  const size_t first = text.find_first_not_of(kBlanks);
  return first == std::string::npos ? "" : text.substr(first, text.find_last_not_of(kBlanks) + 1 - first);
}

ErrorText read_sections(const std::string& text, std::vector<Section>& sections) {
  std::istringstream lines(text);
  bool headed = false;
  for (std::string line; std::getline(lines, line);) {
    const std::string seen = bare(line);
    if (seen.empty() && (sections.empty() || line.find('#') == std::string::npos)) continue;
    if (!headed) {
      if (seen != kHead) return fmt::format("its first line is '{}', not '{}'", seen.substr(0, 80), kHead);
      headed = true;
    } else if (seen.starts_with('[') && seen.ends_with(']')) {
      sections.push_back({seen.substr(1, seen.size() - 2), {}});
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
    const std::string seen = bare(line), collective = seen.substr(0, seen.find_first_of(" \t"));
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
  const auto folder = [](const char* name) {
    const char* value = std::getenv(name);
    return std::string(value == nullptr ? "" : value);
  };
  const std::string cache = folder("XDG_CACHE_HOME"), home = folder("HOME");
  if (cache.empty() && home.empty()) return "neither XDG_CACHE_HOME nor HOME is set; --output names the file";
  path = cache.empty() ? home + "/.cache/rondo/tuning" : cache + "/rondo/tuning";
  return {};
}

// The file at `path` with the rows in it; nothing is written.
ErrorText merge_file(const std::string& path, const std::string& key, const std::vector<std::string>& collectives,
                     const std::string& rows, std::string& after) {
  std::error_code error;
  const auto status = std::filesystem::status(path, error);
  std::string before;
  if (std::filesystem::exists(status)) {
    if (!std::filesystem::is_regular_file(status)) return fmt::format("{} is no file", path);
    std::ifstream file(path);
    if (!file) return fmt::format("{} cannot be read: {}", path, std::strerror(errno));
    before.assign(std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>());
  }
  const ErrorText text = merge_tuning(before, key, collectives, rows, after);
  return text.empty() ? text : fmt::format("{} is kept as it is: {}", path, text);
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

// Rank 0's text on every rank, as the first that ends may end the others before they can speak.
ErrorText from_first(const Job& job, const ErrorText& text) {
  char shared[1024] = "";
  text.copy(shared, sizeof shared - 1);
  const rondo_status status = rondo_broadcast(job.comm(), shared, sizeof shared, RONDO_UINT8, 0, nullptr);
  return status == RONDO_OK ? shared : failure(job.comm(), status, "broadcast of what rank 0 says");
}

// The rows of all calls.
ErrorText measure_rows(const Job& job, const Options& options, const std::vector<Call>& calls,
                       Alternatives& alternatives, bool speaks, std::string& rows) {
  uint64_t seed = 0;
  std::vector<Verdict> verdicts;  // of one collective
  for (const Call& call : calls) {
    Values values(call.dtype, call.redop, info(call.kind).reduces, call.world);
    Contest contest;
    ErrorText text = hold_contest(job, options, call, job.tunable(call), alternatives, values, seed, contest);
    if (!text.empty()) return text;
    const std::string chosen = chosen_name(job.algorithm_of(call));
    const Verdict verdict = verdict_of(call, chosen, contest);
    say(speaks, fmt::format("  {:>14} {:>12} {:>12.2f} {:>20} {:>20}{}{}\n", verdict.collective, verdict.bytes,
                            contest.chosen_us, chosen, verdict.algorithm, verdict.comment.empty() ? "" : "  ",
                            verdict.comment));
    if (!verdicts.empty() && verdicts.back().collective != verdict.collective) {
      rows += tuning_rows(verdicts);
      verdicts.clear();
    }
    verdicts.push_back(verdict);
  }
  rows += tuning_rows(verdicts);
  return {};
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

ErrorText tune(const Job& job, const Options& options, std::vector<Call> calls, size_t in_bytes, size_t out_bytes,
               bool speaks) {
  if (job.local_world() != job.world()) return "--tune needs all ranks on one host";
  std::erase_if(calls, [](const Call& call) { return call.kind == Kind::sendrecv; });  // nothing to choose
  std::vector<std::string> collectives;
  for (const Kind kind : options.kinds) collectives.push_back(info(kind).name);
  std::string path = options.output;
  if (path.empty())
    if (ErrorText text = usual_path(path); !text.empty()) return text;
  const bool writes = job.rank() == 0;
  const std::string key = job.tuning_section(calls.front());
  std::string rows, after;
  // What cannot be written should not be measured.
  if (ErrorText text = from_first(job, writes ? merge_file(path, key, {}, "", after) : ""); !text.empty()) return text;
  say(speaks,
      fmt::format("# an algorithm of the same sums replaces the default where the lower bound (95 %) of the median of "
                  "default / it is {} or more; {} interleaved rounds\n# {:>14} {:>12} {:>12} {:>20} {:>20}\n",
                  kTuneLeast, kContestRounds, "collective", "bytes", "default us", "default", "kept"));
  Alternatives alternatives(job, options, in_bytes, out_bytes);
  if (ErrorText text = measure_rows(job, options, calls, alternatives, speaks, rows); !text.empty()) return text;
  if (!writes) return {};
  if (ErrorText text = merge_file(path, key, collectives, rows, after); !text.empty()) return text;
  if (ErrorText text = replace_file(path, after); !text.empty()) return text;
  say(speaks, fmt::format("# written to {}: [{}]\n{}", path, key, rows));
  return {};
}

}  // namespace rondo::perf
