#include "perf/regret.h"

#include <fmt/format.h>

#include "perf/contest.h"
#include "perf/report.h"

namespace rondo::perf {

ErrorText measure_regret(const Job& job, const Options& options, const std::vector<Call>& calls, size_t in_bytes,
                         size_t out_bytes, bool speaks, int* defects) {
  if (job.local_world() != job.world()) return "--regret needs all ranks on one host";
  say(speaks,
      fmt::format("# chosen / best forced, medians of {} interleaved rounds; a defect where the lower bound of the "
                  "median (95 %) is above {}\n# {:>14} {:>12} {:>12} {:>20} {:>20} {:>8} {:>8}\n",
                  kContestRounds, kRegretMost, "collective", "bytes", "us", "chosen", "best other", "ratio", "lower"));
  Alternatives alternatives(job, options, in_bytes, out_bytes);
  uint64_t seed = 0;
  for (const Call& call : calls) {
    Values values(call.dtype, call.redop, info(call.kind).reduces, call.world);
    Contest contest;
    if (ErrorText text =
            hold_contest(job, options, call, job.alternatives_to(call), alternatives, values, seed, contest);
        !text.empty())
      return text;
    Contest::Rival best = {"-", {}};
    for (const Contest::Rival& rival : contest.rivals)
      if (rival.regret.median > best.regret.median) best = rival;
    const bool defect = best.regret.lower > kRegretMost;
    *defects += defect;
    say(speaks, fmt::format("  {:>14} {:>12} {:>12.2f} {:>20} {:>20} {:>8.2f} {:>8.2f}{}\n", info(call.kind).name,
                            call_bytes(call), contest.chosen_us, chosen_name(job.algorithm_of(call)), best.name,
                            best.regret.median, best.regret.lower, defect ? "  DEFECT" : ""));
  }
  say(speaks, fmt::format("# defects: {}\n", *defects));
  return {};
}

}  // namespace rondo::perf
