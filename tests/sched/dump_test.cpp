// The text form: what is printed is read back equal, and text from strangers is refused with the line, never trusted.
#include <catch2/catch.hpp>

#include <fstream>
#include <random>
#include <sstream>
#include <string>
#include <vector>

#include "algo/registry.h"
#include "sched/builder.h"
#include "sched/dump.h"
#include "sched/verify.h"

using namespace rondo;

namespace {

std::vector<Schedule> generate(const Algorithm& algorithm, uint32_t world, uint32_t lanes) {
  std::vector<Schedule> all;
  for (Rank rank = 0; rank < world; ++rank)
    all.push_back(algorithm.generate({.collective = algorithm.collective,
                                      .world = world,
                                      .chunks = algorithm.chunks(world, lanes),
                                      .lanes = lanes,
                                      .root = rooted(algorithm.collective) ? world / 2 : 0},
                                     rank));
  return all;
}

std::string text_of(const std::vector<Schedule>& all) {
  std::string text;
  for (const Schedule& schedule : all) text += dump(schedule);
  return text;
}

std::string error_of(const std::string& text) {
  const Result<std::vector<Schedule>> result = parse(text);
  return result.ok() ? "" : result.status().text();
}

const std::string kHead = "schedule allreduce world 3 rank 0 root 0 chunks 3 lanes 2\n";

}  // namespace

TEST_CASE("dump: every algorithm is read back equal") {
  for (const Algorithm& algorithm : algorithms()) {
    if (algorithm.generate == nullptr) continue;
    for (const uint32_t world : {1u, 2u, 3u, 6u, 8u})
      for (const uint32_t lanes : {1u, 3u}) {
        const std::vector<Schedule> all = generate(algorithm, world, lanes);
        Result<std::vector<Schedule>> back = parse(text_of(all));
        INFO(name(algorithm.collective) << " " << algorithm.name << " world " << world);
        INFO(back.status().text());
        REQUIRE(back.ok());
        REQUIRE(back.value() == all);
      }
  }
}

TEST_CASE("dump: every form of step has a text that is read back equal") {
  Builder build({.collective = Collective::allreduce, .world = 3, .chunks = 3, .lanes = 2}, 1);
  const std::vector<uint32_t> others = {0, 2}, all = {0, 1, 2};
  build.copy(input(0), output(1)).send(output(2), others).drop(0, input(1)).forward(2, output(1), others);
  build.recv_send(0, build.new_scratch(2), others).reduce_store({.operands = all, .own = input(2)}, output(2));
  build.lane(1).wait(0, 3).idle().reduce_send({.operands = all, .own = scratch(0), .final = true}, others);
  build.reduce_send({.operands = others, .own = input(1)}, others).wait(0, 1).recv(2, output(0));
  const Schedule s = std::move(build).finish();
  REQUIRE(check_structure(s).ok());
  CHECK(dump(s) ==
        "schedule allreduce world 3 rank 1 root 0 chunks 3 lanes 2\n"
        "scratch 2\n"
        "lane 0  0: input:0 -> output:1\n"
        "lane 0  1: output:2 -> send [0 2]\n"
        "lane 0  2: recv 0 size input:1 -> drop\n"
        "lane 0  3: recv 2 size output:1 -> send [0 2]\n"
        "lane 0  4: recv 0 -> scratch:0 -> send [0 2]\n"
        "lane 0  5: reduce [0 1* 2] own input:2 -> output:2\n"
        "lane 1  0: idle wait 0:3\n"
        "lane 1  1: reduce [0 1* 2] own scratch:0 -> send [0 2] final\n"
        "lane 1  2: reduce [0 2] size input:1 -> send [0 2]\n"
        "lane 1  3: recv 2 -> output:0 wait 0:1\n");
  Result<std::vector<Schedule>> back = parse(dump(s));
  INFO(back.status().text());
  REQUIRE(back.ok());
  CHECK(back.value() == std::vector<Schedule>{s});
}

TEST_CASE("parse: errors name the line and what was found") {
  CHECK(error_of("").empty());
  CHECK(error_of("# only a comment\n\n").empty());
  CHECK(error_of("lane 0 0: idle\n") == "line 1: 'lane' before the first 'schedule'");
  CHECK(error_of("program\n") == "line 1: 'program' instead of 'schedule', 'scratch' or 'lane'");
  CHECK(error_of("schedule allreduce world 3 rank 9999999999\n") == "line 1: rank '9999999999' is more than 65535");
  CHECK(error_of("schedule sum world 3\n") == "line 1: 'sum' instead of a collective");
  CHECK(error_of(kHead + "lane 0 1: idle\n") == "line 2: step 1 instead of 0");
  CHECK(error_of(kHead + "lane 2 0: idle\n") == "line 2: lane 2 of 2");
  CHECK(error_of(kHead + "lane 1 0: idle\nlane 0 0: idle\n") == "line 3: lane 0 after lane 1");
  CHECK(error_of(kHead + "lane 0 0: input:1\n") == "line 2: the end of the line instead of '->'");
  CHECK(error_of(kHead + "lane 0 0: reduce [0* 1*] own input:0 -> output:0\n") ==
        "line 2: the star belongs to the own rank 0 only");
  CHECK(error_of(kHead + "lane 0 0: input:0 -> drop\n") == "line 2: 'drop' belongs to a bare 'recv'");
  CHECK(error_of(kHead + "lane 0 0: input:0 -> output:0 surplus\n") ==
        "line 2: 'surplus' instead of the end of the line");
  CHECK(error_of(kHead + "lane 0 0: \x01\xff\n") ==
        "line 2: '?"
        "?' instead of 'input', 'output' or 'scratch'");
  CHECK(
      error_of(kHead + "lane 0 0: input:0 -> send [3]\n") ==
      "the schedule that ends before line 3: rank 0 lane 0 step 0 (input:0 -> send [3]): names rank 3 in a world of 3");
}

TEST_CASE("parse: text changed at random is refused or read as a sound schedule") {
  const unsigned seed = 11;
  INFO("seed " << seed);
  std::mt19937 random(seed);
  const std::string alphabet = "0123456789 []:*->\nlanesendrecvreduceinputoutputscratchfinalwaitdropidle#";
  const std::string original = text_of(generate(*find_algorithm(Collective::allreduce, "recursive_doubling"), 3, 2));
  uint32_t refused = 0;
  for (int i = 0; i < 20000; ++i) {
    std::string text = original;
    for (uint32_t change = 0; change <= random() % 3; ++change) {
      const size_t at = random() % text.size();
      switch (random() % 4) {
        case 0:
          text[at] = alphabet[random() % alphabet.size()];
          break;
        case 1:
          text.erase(at, 1 + random() % 20);
          break;
        case 2:
          text.insert(at, 1, static_cast<char>(random()));
          break;
        default:
          text.insert(at, text.substr(random() % text.size(), random() % 40));
      }
    }
    const Result<std::vector<Schedule>> result = parse(text);
    refused += !result.ok();
    if (!result.ok()) continue;
    for (const Schedule& schedule : result.value()) REQUIRE(check_structure(schedule).ok());
  }
  CHECK(refused > 10000);
}

TEST_CASE("dump: a broken schedule can be described") {
  Schedule s;
  const Step step{.verbs = kRecv | kSend, .src_place = static_cast<Place>(9), .from = 77, .to = 5};
  CHECK(describe(s, step) == "recv [?] size ?:0 -> send [?]");
}

TEST_CASE("diff: equal schedules differ in nothing, others line by line") {
  const std::vector<Schedule> all = generate(*find_algorithm(Collective::allreduce, "ring"), 3, 1);
  CHECK(diff(all[1], all[1]).empty());
  Schedule changed = all[1];
  changed.steps.erase(changed.steps.begin() + 3);
  changed.lane_begin[1] -= 1;
  CHECK(diff(all[1], changed) == "- lane 0  3: recv 0 -> output:1 -> send [2]\n");
  CHECK(diff(changed, all[1]) == "+ lane 0  3: recv 0 -> output:1 -> send [2]\n");
}

TEST_CASE("dot: every message is one arrow between steps") {
  const std::string text = dot(generate(*find_algorithm(Collective::barrier, "flat"), 3, 1));
  CHECK(text.find("r1l0s0 -> r0l0s0;") != std::string::npos);
  CHECK(text.find("r2l0s0 -> r0l0s1;") != std::string::npos);
  CHECK(text.find("r0l0s1 -> r1l0s1;") != std::string::npos);
  CHECK(text.find("r0l0s1 -> r2l0s1;") != std::string::npos);
}

TEST_CASE("golden: the programs that others rely on have not changed") {
  struct Golden {
    Collective collective;
    const char* algorithm;
    uint32_t world, lanes;
  };
  const Golden goldens[] = {{Collective::allreduce, "ring", 4, 1},
                            {Collective::allreduce, "direct", 3, 2},
                            {Collective::allreduce, "recursive_doubling", 5, 1},
                            {Collective::allreduce, "halving_doubling", 5, 1},
                            {Collective::allreduce, "tree", 6, 2},
                            {Collective::broadcast, "scatter_allgather", 4, 1},
                            {Collective::gather, "binomial", 6, 1},
                            {Collective::barrier, "dissemination", 5, 1}};
  for (const Golden& golden : goldens) {
    const std::string file = std::string(name(golden.collective)) + "_" + golden.algorithm + "_" +
                             std::to_string(golden.world) + "x" + std::to_string(golden.lanes) + ".txt";
    INFO(file);
    std::ifstream stream(std::string(RONDO_GOLDEN_DIR) + "/" + file);
    REQUIRE(stream.good());
    std::stringstream text;
    text << stream.rdbuf();
    CHECK(text.str() ==
          text_of(generate(*find_algorithm(golden.collective, golden.algorithm), golden.world, golden.lanes)));
  }
}
