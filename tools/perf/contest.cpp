#include "perf/contest.h"

#include <algorithm>

#include <fmt/format.h>

#include "perf/measure.h"

namespace rondo::perf {
namespace {

constexpr double kMicrosecondsEach = 4000;  // of one algorithm in one round
constexpr double kConfidence = 0.95;

// How many calls and iterations a round takes, from a short run; the same on all ranks. `*possible`: whether the call
// can be made at all.
ErrorText size_round(const Job& job, const Call& call, Form form, Values& values, uint64_t& seed, Options& brief,
                     bool* possible) {
  brief.warmup = 1;
  brief.forms = Forms::both;
  brief.iterations = 3;
  Timing timing;
  if (ErrorText text = measure(job, brief, call, form, values, seed, timing); !text.empty()) return text;
  *possible = timing.measured;
  const double each_us = std::max(timing.p50_us * timing.burst, 0.1);
  std::vector<int64_t> agreed = {timing.burst,
                                 static_cast<int64_t>(std::clamp(kMicrosecondsEach / each_us, 1.0, 100.0))};
  if (ErrorText text = job.largest(call.kind, agreed); !text.empty()) return text;
  brief.burst = static_cast<uint32_t>(agreed[0]);
  brief.iterations = static_cast<uint32_t>(agreed[1]);
  return {};
}

}  // namespace

ErrorText Alternatives::get(const Call& call, const std::string& name, const Job*& job) {
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

ErrorText hold_contest(const Job& job, const Options& options, const Call& call, const std::vector<std::string>& names,
                       Alternatives& alternatives, Values& values, uint64_t& seed, Contest& contest) {
  const Form form = info(call.kind).has_out_of_place ? Form::out_of_place : Form::in_place;
  Options brief = options;
  bool possible = false;
  if (ErrorText text = size_round(job, call, form, values, seed, brief, &possible); !text.empty()) return text;
  if (!possible) return {};
  std::vector<std::vector<double>> ratios(names.size());
  std::vector<double> chosen_us;
  for (int round = 0; round < kContestRounds; ++round) {
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
  contest.chosen_us = chosen_us[chosen_us.size() / 2];
  for (size_t i = 0; i < names.size(); ++i) contest.rivals.push_back({names[i], judge(ratios[i])});
  return {};
}

std::string chosen_name(std::string_view explained) {
  const size_t colon = explained.find(": ");
  const std::string_view rest = colon == std::string_view::npos ? explained : explained.substr(colon + 2);
  return std::string(rest.substr(0, rest.find_first_of(", \n")));
}

}  // namespace rondo::perf
