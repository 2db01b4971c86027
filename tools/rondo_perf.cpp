// rondo-perf: measures and checks the collectives of a Rondo job, from rondo.h alone. Every rank runs the same loops;
// rank 0 speaks.
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstdio>

#include <fmt/format.h>

#include "perf/measure.h"
#include "perf/options.h"
#include "perf/plot.h"
#include "perf/regret.h"
#include "perf/report.h"
#include "perf/tune.h"

namespace {

using namespace rondo::perf;

constexpr int kExitWrong = 1, kExitFailed = 2;
constexpr auto kProgressAfter = std::chrono::seconds(2);

// Every call of a run, in the order of the table. Combinations that are not defined (bit operations on floating types)
// are left out, and so are sizes that come to the same count as the one before.
std::vector<Call> plan(const Options& options, uint32_t rank, uint32_t world) {
  std::vector<Call> calls;
  const std::vector<rondo_redop> one_redop = {RONDO_SUM};
  const std::vector<rondo_dtype> one_dtype = {RONDO_UINT8};
  for (Kind kind : options.kinds) {
    const KindInfo& row = info(kind);
    const int32_t root_first = row.rooted && options.root >= 0 ? options.root : 0;
    const int32_t root_last = row.rooted && options.root < 0 ? static_cast<int32_t>(world) - 1 : root_first;
    for (rondo_dtype dtype : kind == Kind::barrier ? one_dtype : options.dtypes) {
      for (rondo_redop redop : row.reduces ? options.redops : one_redop) {
        if (row.reduces && redop >= RONDO_BAND && is_floating(dtype)) continue;
        for (int32_t root = root_first; root <= root_last; ++root) {
          Call call = {kind, dtype, redop, root, rank, world, 0};
          for (size_t bytes : kind == Kind::barrier ? std::vector<size_t>{0} : sizes(options)) {
            const size_t count = bytes / rondo_dtype_size(dtype) / (row.divided ? world : 1);
            const size_t used = kind == Kind::barrier ? 0 : bytes == 0 ? 0 : std::max<size_t>(count, 1);
            if (!calls.empty() && bytes != options.bytes_first && kind != Kind::barrier && used == call.count) continue;
            call.count = used;
            calls.push_back(call);
          }
        }
      }
    }
  }
  return calls;
}

Summary describe(const Job& job, const Options& options) {
  const uint32_t version = rondo_version();
  return {fmt::format("{}.{}.{}", version / 10000, version / 100 % 100, version % 100), job.world(), job.local_world(),
          options.transports.empty() ? "as configured" : options.transports,
          options.shared_memory ? "rondo_alloc" : "private"};
}

// Shows on a terminal how far a long run is; wipes itself.
class Progress {
 public:
  explicit Progress(bool speaks) : shown_(speaks && isatty(2) == 1), start_(std::chrono::steady_clock::now()) {}
  void show(size_t done, size_t all, const Call& call) const {
    if (!shown_ || std::chrono::steady_clock::now() - start_ < kProgressAfter) return;
    std::fputs(
        fmt::format("\r\x1b[K{} of {}: {} of {} bytes", done, all, info(call.kind).name, call_bytes(call)).c_str(),
        stderr);
  }
  void wipe() const {
    if (shown_) std::fputs("\r\x1b[K", stderr);
  }

 private:
  bool shown_;
  std::chrono::steady_clock::time_point start_;
};

ErrorText run_all(const Job& job, const Options& options, const std::vector<Call>& calls, std::vector<Row>& rows) {
  const bool speaks = job.rank() == 0 && !options.quiet;
  const Progress progress(job.rank() == 0);
  uint64_t seed = 0;
  const Values none(RONDO_UINT8, RONDO_SUM, false, 1);
  Values values = none;
  for (size_t index = 0; index < calls.size(); ++index) {
    const Call& call = calls[index];
    const KindInfo& kind = info(call.kind);
    const bool first = index == 0;
    const bool fresh = first || calls[index - 1].kind != call.kind || calls[index - 1].dtype != call.dtype ||
                       calls[index - 1].redop != call.redop;
    if (fresh) values = Values(call.dtype, call.redop, kind.reduces, call.world);
    if (first || calls[index - 1].kind != call.kind) say(speaks, fmt::format("# {}\n", kind.name) + column_text());
    progress.show(index, calls.size(), call);
    Row row = {call, job.algorithm_of(call), {}, {}};
    ErrorText text = measure(job, options, call, Form::out_of_place, values, seed, row.out_of_place);
    if (text.empty()) text = measure(job, options, call, Form::in_place, values, seed, row.in_place);
    progress.wipe();
    if (!text.empty()) return text;
    say(speaks, row_text(row));
    rows.push_back(std::move(row));
  }
  return {};
}

ErrorText write_files(const Summary& summary, const Options& options, const std::vector<Row>& rows) {
  ErrorText text;
  if (!options.json.empty()) text = write_file(options.json, json_text(summary, options, rows));
  if (text.empty() && !options.csv.empty()) text = write_file(options.csv, csv_text(rows));
  if (text.empty() && !options.plot.empty()) text = write_file(options.plot, svg_text(summary, rows));
  return text;
}

int fail(const std::string& who, const std::string& text) {
  std::fputs(fmt::format("{}: {}\n", who, text).c_str(), stderr);
  return kExitFailed;
}

}  // namespace

int main(int count, char** arguments) {
  Options options;
  int exit_code = 0;
  if (!parse(count, arguments, options, exit_code)) return exit_code;
  Job job;
  if (const ErrorText text = job.join(options); !text.empty()) return fail("rondo-perf", text);
  const std::string who = fmt::format("rondo-perf: rank {}", job.rank());
  if (options.root >= static_cast<int32_t>(job.world())) {
    return fail(who, fmt::format("root {} is not below the world size {}", options.root, job.world()));
  }
  const std::vector<Call> calls = plan(options, job.rank(), job.world());
  size_t in_bytes = 0, out_bytes = 0;
  for (const Call& call : calls) {
    in_bytes = std::max(in_bytes, in_elements(call) * rondo_dtype_size(call.dtype));
    out_bytes = std::max(out_bytes, out_elements(call) * rondo_dtype_size(call.dtype));
  }
  if (const ErrorText text = job.allocate(in_bytes, out_bytes, options.shared_memory); !text.empty()) {
    return fail(who, text);
  }
  const Summary summary = describe(job, options);
  const bool speaks = job.rank() == 0;
  say(speaks && !options.quiet, header_text(summary, options));
  if (options.regret) {
    int defects = 0;
    const ErrorText text = measure_regret(job, options, calls, in_bytes, out_bytes, speaks, &defects);
    return !text.empty() ? fail(who, text) : defects > 0 ? kExitWrong : 0;
  }
  if (options.tune) {
    const ErrorText text = tune(job, options, calls, in_bytes, out_bytes, speaks && !options.quiet);
    return text.empty() ? 0 : fail(who, text);
  }
  std::vector<Row> rows;
  if (const ErrorText text = run_all(job, options, calls, rows); !text.empty()) return fail(who, text);
  if (speaks) {
    if (const ErrorText text = write_files(summary, options, rows); !text.empty()) return fail(who, text);
  }
  const auto refused = [](const Row& row) {
    return !row.out_of_place.refusal.empty() || !row.in_place.refusal.empty();
  };
  if (!rows.empty() && std::all_of(rows.begin(), rows.end(), refused)) {
    const Row& row = rows.front();
    return fail(who, row.out_of_place.refusal.empty() ? row.in_place.refusal : row.out_of_place.refusal);
  }
  const int64_t wrong = wrong_total(rows);
  // With results for a program on stdout, the line for people goes to stderr.
  const std::string last = options.check ? fmt::format("# wrong: {}\n", wrong) : "# wrong: not checked\n";
  if (speaks) std::fputs(last.c_str(), options.json == "-" || options.csv == "-" ? stderr : stdout);
  return wrong > 0 ? kExitWrong : 0;
}
