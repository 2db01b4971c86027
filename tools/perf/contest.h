// The algorithm that is chosen for a call against others that could be forced, measured in turn, so that what else the
// machine does touches all alike. One host only.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "perf/job.h"
#include "perf/values.h"

namespace rondo::perf {

inline constexpr int kContestRounds = 15;

// What one alternative did beside the choice: ratios of medians, chosen / forced, one of each interleaved round.
struct Regret {
  double median = 0;
  double lower = 0;  // of the median, with 95 % confidence, from the order of the ratios alone
};
Regret judge(std::vector<double> ratios);

// One job for each forced algorithm, made when it is first needed.
class Alternatives {
 public:
  Alternatives(const Job& first, const Options& options, size_t in_bytes, size_t out_bytes)
      : first_(first), options_(options), in_bytes_(in_bytes), out_bytes_(out_bytes) {}
  ErrorText get(const Call& call, const std::string& name, const Job*& job);

 private:
  const Job& first_;
  const Options& options_;
  size_t in_bytes_, out_bytes_;
  std::map<std::string, Job> jobs_;
};

// The same on all ranks.
struct Contest {
  double chosen_us = 0;  // 0: the call cannot be made
  struct Rival {
    std::string name;
    Regret regret;
  };
  std::vector<Rival> rivals;
};

// Measures the call as `job` chooses for it, and with each of `names` forced.
ErrorText hold_contest(const Job& job, const Options& options, const Call& call, const std::vector<std::string>& names,
                       Alternatives& alternatives, Values& values, uint64_t& seed, Contest& contest);

// "ring" of "allreduce of 8 bytes: ring, ...", as rondo_explain begins.
std::string chosen_name(std::string_view explained);

}  // namespace rondo::perf
