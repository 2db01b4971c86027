// rondo-perf: that its reference is right for any order of summation and notices what is wrong, its small pure parts,
// and the program itself as ranks of a job.
#include <unistd.h>

#include <algorithm>
#include <catch2/catch.hpp>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <random>

#include "command.h"
#include "kernels/kernels.h"
#include "perf/contest.h"
#include "perf/measure.h"
#include "perf/options.h"
#include "perf/plot.h"
#include "perf/regret.h"
#include "perf/report.h"
#include "perf/tune.h"
#include "perf/values.h"

namespace {

using namespace rondo::perf;
using rondo::test::Outcome;
using rondo::test::run_command;

constexpr size_t kCount = Values::kPeriod + 500;

using Bytes = std::vector<unsigned char>;

// One two-operand step of a reduction, with its own rounding, as a ring makes it.
void combine(rondo_dtype dtype, rondo_redop redop, Bytes& into, const Bytes& other, uint32_t divisor) {
  const void* sources[] = {into.data(), other.data()};
  const rondo::kernels::ReduceArgs args = {sources, 2, into.data(), nullptr, kCount, divisor};
  rondo::kernels::reference().reduce[dtype][redop](args);
}

// All ranks' inputs reduced in a random order, as a chain.
Bytes reduce_shuffled(Values& values, rondo_dtype dtype, rondo_redop redop, uint32_t world, std::mt19937& random) {
  std::vector<uint32_t> order(world);
  for (uint32_t rank = 0; rank < world; ++rank) order[rank] = rank;
  std::shuffle(order.begin(), order.end(), random);
  Bytes result(kCount * rondo_dtype_size(dtype));
  Bytes other = result;
  values.fill(result.data(), kCount, order[0], 0, 3);
  for (uint32_t step = 1; step < world; ++step) {
    values.fill(other.data(), kCount, order[step], 0, 3);
    combine(dtype, redop, result, other, step + 1 == world ? world : 0);
  }
  return result;
}

Outcome perf(uint32_t ranks, std::vector<std::string> arguments, int limit_ms = 60000) {
  std::vector<std::string> all = {RONDO_RUN_PROGRAM, "-n", std::to_string(ranks), "--no-prefix", RONDO_PERF_PROGRAM};
  all.insert(all.end(), arguments.begin(), arguments.end());
  return run_command(std::move(all), limit_ms);
}

}  // namespace

TEST_CASE("the reference is met whatever the order of summation, and one wrong bit is found") {
  std::mt19937 random(20);
  for (uint32_t world : {1u, 2u, 3u, 5u, 8u, 33u, 300u}) {
    for (int type = RONDO_INT8; type <= RONDO_UINT16; ++type) {
      for (int op = RONDO_SUM; op <= RONDO_BXOR; ++op) {
        const auto dtype = static_cast<rondo_dtype>(type);
        const auto redop = static_cast<rondo_redop>(op);
        if (op >= RONDO_BAND && is_floating(dtype)) continue;
        // More ranks than there are significant bits for matter to sums of the narrow types alone.
        const bool narrow_sum =
            is_floating(dtype) && rondo_dtype_size(dtype) <= 2 && (op == RONDO_SUM || op == RONDO_AVG);
        if (world == 300 && !narrow_sum) continue;
        CAPTURE(world, rondo_dtype_name(dtype), rondo_redop_name(redop));
        Values values(dtype, redop, true, world);
        Bytes result = reduce_shuffled(values, dtype, redop, world, random);
        const Expectation whole = {0, kCount, Expectation::kReduced, 0};
        REQUIRE(values.wrong(result.data(), whole, 3) == 0);
        result[result.size() / 2] ^= 0x10;
        REQUIRE(values.wrong(result.data(), whole, 3) == 1);
      }
    }
  }
}

TEST_CASE("results are not all alike: data of another iteration or place is found to be wrong") {
  for (int type = RONDO_INT8; type <= RONDO_UINT16; ++type) {
    for (int op = RONDO_SUM; op <= RONDO_BXOR; ++op) {
      const auto dtype = static_cast<rondo_dtype>(type);
      const auto redop = static_cast<rondo_redop>(op);
      if (op >= RONDO_BAND && is_floating(dtype)) continue;
      CAPTURE(rondo_dtype_name(dtype), rondo_redop_name(redop));
      std::mt19937 random(1);
      Values values(dtype, redop, true, 8);
      const Bytes result = reduce_shuffled(values, dtype, redop, 8, random);
      const Expectation whole = {0, kCount, Expectation::kReduced, 0};
      const Expectation shifted = {0, kCount, Expectation::kReduced, 4096};
      REQUIRE(values.wrong(result.data(), whole, 4) > kCount / 10);
      REQUIRE(values.wrong(result.data(), shifted, 3) > kCount / 10);
    }
  }
}

TEST_CASE("floating types are encoded by their definition") {
  REQUIRE(encode(RONDO_FLOAT16, 1) == 0x3c00);
  REQUIRE(encode(RONDO_FLOAT16, -2.5) == 0xc100);
  REQUIRE(encode(RONDO_BFLOAT16, 1) == 0x3f80);
  REQUIRE(encode(RONDO_FLOAT8_E4M3, 448) == 0x7e);
  REQUIRE(encode(RONDO_FLOAT8_E4M3, 0x1p-9) == 0x01);
  REQUIRE(encode(RONDO_FLOAT8_E5M2, -1) == 0xbc);
  REQUIRE(encode(RONDO_FLOAT32, 1) == 0x3f800000);
  REQUIRE(encode(RONDO_FLOAT16, 0) == 0);
  REQUIRE(encode(RONDO_FLOAT16, 1 + 0x1p-11) == 0x3c00);  // halfway, to even
  REQUIRE(encode(RONDO_FLOAT16, 2 - 0x1p-12) == 0x4000);  // carries into the exponent
}

TEST_CASE("sizes are read with binary suffixes, and nonsense is refused") {
  size_t bytes = 0;
  REQUIRE((parse_bytes("64", bytes) && bytes == 64));
  REQUIRE((parse_bytes("8K", bytes) && bytes == 8192));
  REQUIRE((parse_bytes("1.5m", bytes) && bytes == 1572864));
  REQUIRE((parse_bytes("2GiB", bytes) && bytes == size_t{2} << 30));
  for (const char* text : {"", "K", "-1", "8X", "1Kb", "nan", "1e30"}) REQUIRE_FALSE(parse_bytes(text, bytes));
}

TEST_CASE("sizes grow by the factor or the step, and always end") {
  Options options;
  options.bytes_first = 0;
  options.bytes_last = 9;
  REQUIRE(sizes(options) == std::vector<size_t>{0, 1, 2, 4, 8});
  options.bytes_first = 4;
  options.step = 2;
  REQUIRE(sizes(options) == std::vector<size_t>{4, 6, 8});
}

TEST_CASE("percentiles are of the nearest rank") {
  std::vector<int64_t> times;
  for (int64_t time = 100; time > 0; --time) times.push_back(time * 1000);
  Timing timing;
  summarise(times, 1, timing);
  REQUIRE(timing.p50_us == 50);
  REQUIRE(timing.p99_us == 99);
  REQUIRE(timing.min_us == 1);
  REQUIRE(timing.mean_us == 50.5);
  summarise({2000}, 2, timing);
  REQUIRE(timing.p50_us == 1);
}

TEST_CASE("a plot of nothing and of one point is still a picture") {
  const Summary summary = {"1.2.3", 2, 2, "shm", "private"};
  REQUIRE(svg_text(summary, {}).find("</svg>") != std::string::npos);
  Row row = {{Kind::allreduce, RONDO_FLOAT32, RONDO_SUM, 0, 0, 2, 1024}, "ring", {}, {}};
  row.out_of_place = {true, 1, 1, 5, 5, 5, 5, 5, 1, 1, 0, {}};
  const std::string svg = svg_text(summary, {row});
  REQUIRE(svg.find("allreduce float32 sum") != std::string::npos);
  REQUIRE(svg.find("nan") == std::string::npos);
  REQUIRE(svg.find("inf") == std::string::npos);
}

TEST_CASE("every collective is right on 1 to 5 ranks") {
  for (uint32_t ranks : {1u, 2u, 3u, 4u, 5u}) {
    CAPTURE(ranks);
    const Outcome outcome =
        perf(ranks, {"all", "-b", "0", "-e", "300K", "-f", "9", "-r", "all", "--verify-only", "-q"});
    CHECK(outcome.err == "");
    REQUIRE(outcome.out == "# wrong: 0\n");
    REQUIRE(outcome.exit_code == 0);
  }
}

TEST_CASE("every type and operator is right on 3 ranks, in shared buffers") {
  const Outcome outcome = perf(3, {"allreduce", "reduce", "reduce_scatter", "-d", "all", "-o", "all", "-b", "100", "-e",
                                   "70000", "-f", "26", "--alloc", "--verify-only", "-q"});
  CHECK(outcome.err == "");
  REQUIRE(outcome.out == "# wrong: 0\n");
}

TEST_CASE("every collective is right over sockets alone") {
  const Outcome outcome = perf(3, {"all", "-b", "4", "-e", "100K", "-f", "30", "-t", "tcp", "--verify-only", "-q"});
  CHECK(outcome.err == "");
  REQUIRE(outcome.out == "# wrong: 0\n");
}

TEST_CASE("the files hold what the table shows") {
  char pattern[] = "/tmp/rondo-perf-test-XXXXXX";
  REQUIRE(mkdtemp(pattern) != nullptr);
  const std::string folder = pattern;
  const Outcome outcome = perf(2, {"allreduce", "-b", "1K", "-e", "4K", "-n", "5", "--json", folder + "/o.json",
                                   "--csv", folder + "/o.csv", "--plot", folder + "/o.svg"});
  REQUIRE(outcome.exit_code == 0);
  const nlohmann::json json = nlohmann::json::parse(std::ifstream(folder + "/o.json"));
  REQUIRE(json["world"] == 2);
  REQUIRE(json["rows"].size() == 3);
  REQUIRE(json["rows"][2]["bytes"] == 4096);
  REQUIRE(json["rows"][0]["out_of_place"]["iterations"] == 5);
  std::ifstream csv(folder + "/o.csv");
  size_t lines = 0;
  for (std::string line; std::getline(csv, line);) ++lines;
  REQUIRE(lines == 1 + 3 * 2);
  REQUIRE(std::filesystem::file_size(folder + "/o.svg") > 1000);
  REQUIRE(outcome.out.find("# wrong: 0\n") != std::string::npos);
  std::filesystem::remove_all(folder);
}

TEST_CASE("results on stdout are alone there") {
  const Outcome outcome = perf(2, {"allreduce", "-b", "1K", "-e", "1K", "-n", "5", "--json", "-"});
  REQUIRE(nlohmann::json::parse(outcome.out)["wrong"] == 0);
  REQUIRE(outcome.err == "# wrong: 0\n");
}

TEST_CASE("wrong arguments and an unknown algorithm end with 2 and say why") {
  REQUIRE(run_command({RONDO_PERF_PROGRAM, "allbroken"}).exit_code == 2);
  REQUIRE(run_command({RONDO_PERF_PROGRAM, "-d", "float31"}).err.find("'float31'") != std::string::npos);
  REQUIRE(run_command({RONDO_PERF_PROGRAM, "-b", "1K", "-e", "8"}).exit_code == 2);
  const Outcome outcome = perf(2, {"-a", "teleport", "-e", "8"});
  REQUIRE(outcome.exit_code == 2);
  REQUIRE(outcome.err.find("teleport") != std::string::npos);
}

TEST_CASE("sizes that a forced algorithm cannot do are left out, and it is an error when it can do none") {
  const Outcome some = perf(2, {"-a", "oneshot", "-b", "64", "-e", "64K", "-f", "32", "--verify-only", "-t", "shm"});
  CHECK(some.err == "");
  REQUIRE(some.exit_code == 0);
  const Outcome none = perf(2, {"-a", "oneshot", "-b", "64K", "-e", "64K", "--verify-only", "-t", "shm"});
  REQUIRE(none.exit_code == 2);
  REQUIRE(none.err.find("UNSUPPORTED") != std::string::npos);
}

TEST_CASE("regret: the lower bound comes from the order of the ratios alone") {
  std::vector<double> ratios;
  for (int i = 15; i > 0; --i) ratios.push_back(i);
  const Regret regret = judge(ratios);
  REQUIRE(regret.median == 8);
  // Fewer than 4 of 15 ratios below the median: 1.8 %; fewer than 5: 5.9 %.
  REQUIRE(regret.lower == 4);
  REQUIRE(judge({}).lower == 0);
  REQUIRE(judge({2, 2, 2, 2}).lower == 0);  // too few to be sure of anything
  REQUIRE(judge(std::vector<double>(15, 1.3)).lower > kRegretMost);
}

TEST_CASE("regret: every size gets a line with the choice and the best of the others") {
  const Outcome outcome = run_command({RONDO_RUN_PROGRAM, "-n", "2", "--no-prefix", RONDO_PERF_PROGRAM, "allreduce",
                                       "allgather", "--regret", "-b", "64", "-e", "64K", "-f", "1024"});
  INFO(outcome.out << outcome.err);
  REQUIRE((outcome.exit_code == 0 || outcome.exit_code == 1));
  REQUIRE(outcome.out.find("# defects: ") != std::string::npos);
  for (const char* chosen : {"oneshot", "owners", "workspace"}) REQUIRE(outcome.out.find(chosen) != std::string::npos);
}

TEST_CASE("tune: boundaries lie between the sizes, and the default stays where nothing was measured") {
  CHECK(tuning_rows({}) == "");
  CHECK(tuning_rows({{"allreduce", 8, "a", "x"}, {"allreduce", 32, "a", "y"}, {"allreduce", 128, "default", ""}}) ==
        "allreduce 64 a  # y\nallreduce 128 default\n");
  CHECK(tuning_rows({{"reduce", 1024, "a", ""}}) == "reduce 1023 default\nreduce 1024 a\n");
  CHECK(tuning_rows({{"reduce", 1024, "default", ""}}) == "reduce 1024 default\n");
  CHECK(tuning_rows({{"barrier", 0, "a", ""}}) == "barrier 0 a\n");
  CHECK(tuning_rows({{"reduce", 9, "a", ""}, {"reduce", 10, "b", ""}}) ==
        "reduce 8 default\nreduce 9 a\nreduce 10 b\n");
}

TEST_CASE("tune: a file keeps what was not measured anew, unless it is another version's or too much") {
  std::string text;
  REQUIRE(merge_tuning("", "1; k", {"reduce"}, "reduce 8 a\n", text) == "");
  CHECK(text == "rondo tuning 1\n\n[1; k]\nreduce 8 a\n");
  const std::string before =
      "rondo tuning 1\n[1; k]\nreduce 8 a\nbarrier 0 b\n[0; k]\nreduce 8 c\n[1; l]\nreduce 8 d  # e\n";
  REQUIRE(merge_tuning(before, "1; k", {"reduce"}, "reduce 9 f\n", text) == "");
  CHECK(text == "rondo tuning 1\n\n[1; l]\nreduce 8 d  # e\n\n[1; k]\nbarrier 0 b\nreduce 9 f\n");
  const std::string much = "rondo tuning 1\n[1; l]\n" + std::string(32 << 10, '#') + "\n[1; m]\nreduce 8 a\n";
  REQUIRE(merge_tuning(much, "1; k", {}, "", text) == "");
  CHECK(text == "rondo tuning 1\n\n[1; m]\nreduce 8 a\n\n[1; k]\n");
  CHECK(merge_tuning("", "1; k", {}, std::string(32 << 10, '#'), text) != "");
  CHECK(merge_tuning("my diary\n", "1; k", {}, "", text) == "its first line is 'my diary', not 'rondo tuning 1'");
  // Laid out by hand, as the library takes it.
  REQUIRE(merge_tuning("# mine\n rondo tuning 1 # all\n [1; k] # here\n  reduce 8 a\n\tbarrier 0 b # c\n", "1; k",
                       {"reduce"}, "", text) == "");
  CHECK(text == "rondo tuning 1\n\n[1; k]\n\tbarrier 0 b # c\n");
}

TEST_CASE("tune: the file is written, kept up, and taken by a later job") {
  const auto folder = std::filesystem::temp_directory_path() / ("rondo-tune-" + std::to_string(getpid()));
  const std::string path = (folder / "rondo" / "tuning").string();
  // With the file where every job looks for it.
  const auto job = [&](const std::vector<std::string>& arguments) {
    std::vector<std::string> command = {
        RONDO_RUN_PROGRAM, "-n", "2", "--no-prefix", "env", "RONDO_TUNE=auto", "XDG_CACHE_HOME=" + folder.string(),
        RONDO_PERF_PROGRAM};
    command.insert(command.end(), arguments.begin(), arguments.end());
    return run_command(command);
  };
  const auto tune = [&](const std::string& collective) {
    return job({collective, "--tune", "-b", "64", "-e", "64K", "-f", "1024"});
  };
  const auto write = [&](const std::string& text) { std::ofstream(path) << text; };
  const std::vector<std::string> measured = {"allreduce", "-b", "64", "-e", "64", "-n", "5"};
  for (const std::string collective : {"allreduce", "barrier"}) {
    const Outcome outcome = tune(collective);
    INFO(outcome.out << outcome.err);
    REQUIRE(outcome.exit_code == 0);
    REQUIRE(outcome.out.find("# written to " + path) != std::string::npos);
  }
  std::ifstream file(path);
  const std::string text((std::istreambuf_iterator<char>(file)), std::istreambuf_iterator<char>());
  INFO(text);
  REQUIRE(text.find("allreduce 65536 ") != std::string::npos);
  REQUIRE(text.find("barrier 0 ") != std::string::npos);
  // The section that was written is the one that the library looks up.
  write(text.substr(0, text.find("]\n") + 2) + "allreduce 64 owners\n");
  const Outcome later = job(measured);
  INFO(later.out << later.err);
  REQUIRE(later.exit_code == 0);
  REQUIRE(later.out.find(" owners") != std::string::npos);
  write("my diary\n");
  const Outcome warned = job(measured);
  INFO(warned.out << warned.err);
  REQUIRE(warned.exit_code == 0);
  REQUIRE(warned.err.find(path + ":1: 'my diary': expected 'rondo tuning 1'; choosing without it") !=
          std::string::npos);
  const Outcome refused = tune("barrier");
  REQUIRE(refused.exit_code == 2);
  REQUIRE(refused.err.find(path + " is kept as it is: its first line is 'my diary'") != std::string::npos);
  const Outcome folded = job({"barrier", "--tune", "--output", folder.string()});
  REQUIRE(folded.exit_code == 2);
  REQUIRE(folded.err.find(folder.string() + " is no file") != std::string::npos);
  REQUIRE(job({"barrier", "--tune", "--output", "/proc/tuning"}).err.find("/proc/tuning") != std::string::npos);
  std::filesystem::remove_all(folder);
}

TEST_CASE("tune: what it cannot be combined with is said") {
  const auto said = [](const std::vector<std::string>& more) {
    std::vector<std::string> command = {RONDO_PERF_PROGRAM, "--tune"};
    command.insert(command.end(), more.begin(), more.end());
    const Outcome outcome = run_command(command);
    CHECK(outcome.exit_code == 2);
    return outcome.err;
  };
  CHECK(said({"-d", "all"}).find("one element type") != std::string::npos);
  CHECK(said({"-a", "ring"}).find("no --algorithm") != std::string::npos);
  CHECK(said({"reduce", "reduce"}).find("reduce is named again") != std::string::npos);
  CHECK(said({"sendrecv"}).find("sendrecv has no algorithms") != std::string::npos);
  CHECK(said({"--json", "-"}).find("no --verify-only, --json") != std::string::npos);
  CHECK(said({"--regret"}).find("--regret") != std::string::npos);
  const Outcome homeless = run_command({"/usr/bin/env", "-u", "HOME", "-u", "XDG_CACHE_HOME", RONDO_PERF_PROGRAM, "--tune"});
  CHECK(homeless.exit_code == 2);
  CHECK(homeless.err.find("neither XDG_CACHE_HOME nor HOME is set") != std::string::npos);
}
