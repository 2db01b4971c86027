#include "perf/report.h"

#include <cerrno>
#include <cstdio>
#include <cstring>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

namespace rondo::perf {
namespace {

std::string redop_text(const Call& call) { return info(call.kind).reduces ? rondo_redop_name(call.redop) : "none"; }
int root_of(const Call& call) { return info(call.kind).rooted ? call.root : -1; }

// Four significant digits or whole numbers, so that nanoseconds and seconds fit one column.
std::string number(double value) {
  if (value >= 1000) return fmt::format("{:.0f}", value);
  if (value >= 100) return fmt::format("{:.1f}", value);
  return fmt::format("{:.{}f}", value, value >= 10 ? 2 : 3);
}

std::string timing_text(const Timing& timing) {
  if (!timing.measured) return fmt::format("{:>9} {:>9} {:>9} {:>8} {:>8} {:>6}", "-", "-", "-", "-", "-", "-");
  return fmt::format("{:>9} {:>9} {:>9} {:>8} {:>8} {:>6}", number(timing.mean_us), number(timing.p50_us),
                     number(timing.p99_us), number(timing.algorithm_gbs), number(timing.bus_gbs),
                     timing.wrong < 0 ? "n/a" : std::to_string(timing.wrong));
}

nlohmann::json timing_json(const Timing& timing) {
  if (!timing.refusal.empty()) return {{"unsupported", timing.refusal}};
  if (!timing.measured) return nullptr;
  nlohmann::json json = {{"iterations", timing.iterations}, {"burst", timing.burst},
                         {"mean_us", timing.mean_us},       {"min_us", timing.min_us},
                         {"p50_us", timing.p50_us},         {"p99_us", timing.p99_us},
                         {"max_us", timing.max_us},         {"algbw_gbs", timing.algorithm_gbs},
                         {"busbw_gbs", timing.bus_gbs}};
  json["wrong"] = timing.wrong < 0 ? nlohmann::json(nullptr) : nlohmann::json(timing.wrong);
  return json;
}

}  // namespace

std::string header_text(const Summary& summary, const Options& options) {
  std::string text = fmt::format("# rondo {}  world {}  local world {}  transports {}  buffers {}\n", summary.version,
                                 summary.world, summary.local_world, summary.transports, summary.buffers);
  text += fmt::format("# warm-up {}  iterations {}  calls per iteration {}  check {}\n", options.warmup,
                      options.iterations == 0 ? "about 0.3 s per size" : std::to_string(options.iterations),
                      options.burst == 0 ? "about 50 us" : std::to_string(options.burst),
                      options.check ? "every iteration" : "off");
  return text + "# times in us, the longest over the ranks; bandwidths in 1e9 B/s, from the median\n";
}

std::string column_text() {
  const std::string group =
      fmt::format("{:>9} {:>9} {:>9} {:>8} {:>8} {:>6}", "time", "p50", "p99", "algbw", "busbw", "#wrong");
  return fmt::format("#{:>68}{:>46}\n", "out-of-place", "in-place") +
         fmt::format("#{:>11} {:>11} {:>14} {:>6} {:>4} {}   {}  algorithm\n", "size", "count", "type", "redop", "root",
                     group, group);
}

std::string row_text(const Row& row) {
  const std::string collective = info(row.call.kind).name;
  return fmt::format("{:>12} {:>11} {:>14} {:>6} {:>4} {}   {}  {}\n", call_bytes(row.call), row.call.count,
                     rondo_dtype_name(row.call.dtype), redop_text(row.call), root_of(row.call),
                     timing_text(row.out_of_place), timing_text(row.in_place), row.algorithm);
}

int64_t wrong_total(const std::vector<Row>& rows) {
  int64_t wrong = 0;
  for (const Row& row : rows) {
    for (const Timing* timing : {&row.out_of_place, &row.in_place}) wrong += std::max<int64_t>(timing->wrong, 0);
  }
  return wrong;
}

std::string json_text(const Summary& summary, const Options& options, const std::vector<Row>& rows) {
  nlohmann::json list = nlohmann::json::array();
  for (const Row& row : rows) {
    list.push_back({{"collective", info(row.call.kind).name},
                    {"bytes", call_bytes(row.call)},
                    {"count", row.call.count},
                    {"dtype", rondo_dtype_name(row.call.dtype)},
                    {"redop", redop_text(row.call)},
                    {"root", root_of(row.call)},
                    {"algorithm", row.algorithm},
                    {"out_of_place", timing_json(row.out_of_place)},
                    {"in_place", timing_json(row.in_place)}});
  }
  const nlohmann::json json = {{"tool", "rondo-perf"},
                               {"version", summary.version},
                               {"world", summary.world},
                               {"local_world", summary.local_world},
                               {"transports", summary.transports},
                               {"buffers", summary.buffers},
                               {"warmup", options.warmup},
                               {"wrong", wrong_total(rows)},
                               {"rows", list}};
  return json.dump(1) + "\n";
}

std::string csv_text(const std::vector<Row>& rows) {
  std::string text =
      "collective,bytes,count,dtype,redop,root,form,iterations,burst,mean_us,min_us,p50_us,p99_us,max_us,algbw_gbs,"
      "busbw_gbs,"
      "wrong,"
      "algorithm\n";
  for (const Row& row : rows) {
    for (const Timing* timing : {&row.out_of_place, &row.in_place}) {
      if (!timing->measured) continue;
      std::string quoted;
      for (char letter : row.algorithm) quoted += letter == '"' ? std::string("\"\"") : std::string(1, letter);
      text +=
          fmt::format("{},{},{},{},{},{},{},{},{},{:.4f},{:.4f},{:.4f},{:.4f},{:.4f},{:.6f},{:.6f},{},\"{}\"\n",
                      info(row.call.kind).name, call_bytes(row.call), row.call.count, rondo_dtype_name(row.call.dtype),
                      redop_text(row.call), root_of(row.call), timing == &row.in_place ? "in_place" : "out_of_place",
                      timing->iterations, timing->burst, timing->mean_us, timing->min_us, timing->p50_us,
                      timing->p99_us, timing->max_us, timing->algorithm_gbs, timing->bus_gbs, timing->wrong, quoted);
    }
  }
  return text;
}

void say(bool speaks, const std::string& text) {
  if (!speaks) return;
  std::fputs(text.c_str(), stdout);
  std::fflush(stdout);
}

ErrorText write_file(const std::string& path, const std::string& text) {
  std::FILE* file = path == "-" ? stdout : std::fopen(path.c_str(), "w");
  const bool written = file != nullptr && std::fwrite(text.data(), 1, text.size(), file) == text.size();
  const bool closed = file == nullptr || (file == stdout ? std::fflush(file) : std::fclose(file)) == 0;
  if (written && closed) return {};
  const int error = errno;
  return fmt::format("{}: {} (errno {})", path, std::strerror(error), error);
}

}  // namespace rondo::perf
