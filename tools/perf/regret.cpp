#include "perf/regret.h"

#include <algorithm>
#include <cstdio>
#include <map>
#include <set>

#include <fmt/format.h>

#include "perf/measure.h"

namespace rondo::perf {
namespace {

constexpr int kRounds = 15;
constexpr double kMicrosecondsEach = 4000;  // of one algorithm in one round
constexpr double kConfidence = 0.95;

std::string first_word(const std::string& explained) {
  const size_t colon = explained.find(": ");
  const std::string rest = colon == std::string::npos ? explained : explained.substr(colon + 2);
  return rest.substr(0, rest.find_first_of(", \n"));
}

// One job a forced algorithm, made when it is first needed.
class Alternatives {
 public:
  Alternatives(const Job& first, const Options& options, size_t in_bytes, size_t out_bytes)
      : first_(first), options_(options), in_bytes_(in_bytes), out_bytes_(out_bytes) {}

  ErrorText get(const Call& call, const std::string& name, const Job*& job) {
    const std::string key = fmt::format("{}:{}", info(call.kind).name, name);
    const auto known = jobs_.find(key);
    if (known != jobs_.end()) {
      job = &known->second;
      return {};
    }
    Job made;
    if (ErrorText text = made.join_beside(first_, options_, key, static_cast<int>(jobs_.size())); !text.empty())
      return text;
    if (options_.shared_memory)
      if (ErrorText text = made.allocate(in_bytes_, out_bytes_, true); !text.empty()) return text;
    job = &jobs_.emplace(key, std::move(made)).first->second;
    return {};
  }

 private:
  const Job& first_;
  const Options& options_;
  size_t in_bytes_, out_bytes_;
  std::map<std::string, Job> jobs_;
};

struct Line {
  double chosen_us = 0;
  std::string best;
  Regret regret;
};

// Every round measures the choice and then each alternative, so that what else the machine does touches all alike.
ErrorText measure_call(const Job& job, const Options& options, const Call& call, Alternatives& alternatives,
                       Values& values, uint64_t& seed, Line& line) {
  const Form form = info(call.kind).has_out_of_place ? Form::out_of_place : Form::in_place;
  Options brief = options;
  brief.warmup = 1;
  brief.forms = Forms::both;
  Timing timing;
  brief.iterations = 3;
  if (ErrorText text = measure(job, brief, call, form, values, seed, timing); !text.empty()) return text;
  if (!timing.measured) return {};
  brief.burst = timing.burst;
  const double each_us = std::max(timing.p50_us * timing.burst, 0.1);
  brief.iterations = static_cast<uint32_t>(std::clamp(kMicrosecondsEach / each_us, 1.0, 100.0));
  std::vector<int64_t> agreed = {brief.burst, brief.iterations};
  if (ErrorText text = job.largest(call.kind, agreed); !text.empty()) return text;
  brief.burst = static_cast<uint32_t>(agreed[0]);
  brief.iterations = static_cast<uint32_t>(agreed[1]);
  const std::vector<std::string> names = job.alternatives_to(call);
  std::vector<std::vector<double>> ratios(names.size());
  std::vector<double> chosen_us;
  for (int round = 0; round < kRounds; ++round) {
    Timing chosen;
    if (ErrorText text = measure(job, brief, call, form, values, seed, chosen); !text.empty()) return text;
    chosen_us.push_back(chosen.p50_us);
    for (size_t i = 0; i < names.size(); ++i) {
      const Job* other = nullptr;
      if (ErrorText text = alternatives.get(call, names[i], other); !text.empty()) return text;
      Timing forced;
      if (ErrorText text = measure(*other, brief, call, form, values, seed, forced); !text.empty()) return text;
      if (forced.p50_us > 0) ratios[i].push_back(chosen.p50_us / forced.p50_us);
    }
  }
  std::sort(chosen_us.begin(), chosen_us.end());
  line.chosen_us = chosen_us[chosen_us.size() / 2];
  for (size_t i = 0; i < names.size(); ++i) {
    const Regret regret = judge(ratios[i]);
    if (!line.best.empty() && regret.median <= line.regret.median) continue;
    line.best = names[i];
    line.regret = regret;
  }
  return {};
}

}  // namespace

Regret judge(std::vector<double> ratios) {
  if (ratios.empty()) return {};
  std::sort(ratios.begin(), ratios.end());
  const size_t count = ratios.size();
  // The k-th smallest is below the true median unless fewer than k ratios are: k as large as 95 % allow, by the
  // binomial distribution of how many fall below it.
  double below = 0, term = 1;
  for (size_t i = 0; i < count; ++i) term /= 2;
  size_t k = 0;
  while (k < count && below + term <= 1 - kConfidence) {
    below += term;
    term *= static_cast<double>(count - k) / static_cast<double>(k + 1);
    ++k;
  }
  return {ratios[count / 2], k == 0 ? 0 : ratios[k - 1]};
}

ErrorText measure_regret(const Job& job, const Options& options, const std::vector<Call>& calls, size_t in_bytes,
                         size_t out_bytes, bool speaks, int* defects) {
  if (job.local_world() != job.world()) return "--regret needs all ranks on one host";
  const auto say = [&](const std::string& text) {
    if (!speaks) return;
    std::fputs(text.c_str(), stdout);
    std::fflush(stdout);
  };
  say(
      fmt::format("# chosen / best forced, medians of {} interleaved rounds; a defect where the lower bound of the "
                  "median (95 %) is above {}\n# {:>14} {:>12} {:>12} {:>20} {:>20} {:>8} {:>8}\n",
                  kRounds, kRegretMost, "collective", "bytes", "us", "chosen", "best other", "ratio", "lower"));
  Alternatives alternatives(job, options, in_bytes, out_bytes);
  uint64_t seed = 0;
  for (const Call& call : calls) {
    Values values(call.dtype, call.redop, info(call.kind).reduces, call.world);
    Line line;
    if (ErrorText text = measure_call(job, options, call, alternatives, values, seed, line); !text.empty()) return text;
    const bool defect = line.regret.lower > kRegretMost;
    *defects += defect;
    say(fmt::format("  {:>14} {:>12} {:>12.2f} {:>20} {:>20} {:>8.2f} {:>8.2f}{}\n", info(call.kind).name,
                    call_bytes(call), line.chosen_us, first_word(job.algorithm_of(call)),
                    line.best.empty() ? "-" : line.best, line.regret.median, line.regret.lower,
                    defect ? "  DEFECT" : ""));
  }
  say(fmt::format("# defects: {}\n", *defects));
  return {};
}

}  // namespace rondo::perf
