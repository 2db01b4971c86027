#include "tune/table.h"

#include <catch2/catch.hpp>

#include "tune/choose.h"

using namespace rondo;

namespace {

constexpr std::string_view kText =
    "# measured\n"
    "rondo tuning 1\n"
    "\n"
    "[a; 2 ranks]\n"
    "allreduce 4096 oneshot\r\n"
    "  allreduce\t65536   default # 3 us\n"
    "allreduce 1048576 claims\n"
    "broadcast 10 binomial\n"
    "[b]\n"
    "barrier 0 dissemination";

std::string fault(std::string_view text) { return TuningTable::parse(text, "t").status().text(); }

}  // namespace

TEST_CASE("tuning table: rows cover sizes up to theirs") {
  auto table = TuningTable::parse(kText, "t");
  REQUIRE(table.ok());
  CHECK(table->section("a") == nullptr);
  const TuningSection* section = table->section("a; 2 ranks");
  REQUIRE(section != nullptr);
  CHECK(section->find(Collective::allreduce, 0)->algorithm->name == "oneshot");
  CHECK(section->find(Collective::allreduce, 4096)->algorithm->name == "oneshot");
  CHECK(section->find(Collective::allreduce, 4097)->algorithm == nullptr);
  CHECK(section->find(Collective::allreduce, 65537)->algorithm->name == "claims");
  CHECK(section->find(Collective::allreduce, 1048577) == nullptr);
  CHECK(section->find(Collective::reduce, 1) == nullptr);
  CHECK(section->rows_of(Collective::allreduce) == "4096 oneshot, 65536 default, 1048576 claims");
  CHECK(section->rows_of(Collective::reduce).empty());
  REQUIRE(table->section("b") != nullptr);
  CHECK(table->section("b")->find(Collective::barrier, 0)->algorithm->name == "dissemination");
  auto none = TuningTable::parse("", "t");
  REQUIRE(none.ok());
  CHECK(none->section("b") == nullptr);
}

TEST_CASE("tuning table: a wrong line is named with what was expected") {
  CHECK(fault("rondo tuning 2\n") == "t:1: 'rondo tuning 2': expected 'rondo tuning 1'");
  CHECK(fault("rondo tuning 1\nallreduce 1 ring\n") == "t:2: 'allreduce 1 ring' stands before the first [section]");
  const std::string head = "rondo tuning 1\n[a]\n";
  CHECK(fault(head + "[b\n") == "t:3: '[b': expected ']' at its end");
  CHECK(fault(head + "[\n") == "t:3: '[': expected ']' at its end");
  CHECK(fault(head + "[a]\n") == "t:3: [a] stands here for the second time");
  CHECK(fault(head + "allreduce 1\n") ==
        "t:3: 'allreduce 1': expected a collective, a number of bytes and an algorithm");
  CHECK(fault(head + "allreduce 1 ring fast\n") ==
        "t:3: 'allreduce 1 ring fast': expected a collective, a number of bytes and an algorithm");
  CHECK(fault(head + "allreduces 1 ring\n") == "t:3: 'allreduces' is no collective");
  for (const std::string_view bytes : {"-1", "1K", "18446744073709551616"})
    CHECK(fault(head + "allreduce " + std::string(bytes) + " ring") ==
          "t:3: '" + std::string(bytes) + "' is no number of bytes");
  CHECK(fault(head + "barrier 0 ring\n") ==
        "t:3: barrier has no algorithm 'ring'; expected one of: default, dissemination, flat, workspace");
  CHECK(fault(head + "allreduce 8 ring\nallreduce 8 tree\n") ==
        "t:4: allreduce 8 stands after allreduce 8; expected ascending bytes");
  CHECK(fault(std::string(TuningTable::kMostBytes + 1, '\n')) == "t: 32769 bytes, expected at most 32768");
  CHECK(fault(std::string(100, '\xff')).starts_with("t:1: '"));
}

TEST_CASE("tuning: a row replaces the default where it can run and gives the same bits") {
  auto table = TuningTable::parse(
      "rondo tuning 1\n[a]\nallreduce 100 owners\nallreduce 200 ring\nallreduce 300 default\nallreduce 20000 oneshot\n"
      "allgather 100 bruck\n",
      "t");
  REQUIRE(table.ok());
  CommFacts facts{.world = 2, .one_memory = true, .cells = true, .workspace = true};
  const auto chosen = [&](Collective collective, size_t bytes, const AlgorithmSpec& spec) {
    return std::string(choose(collective, bytes, facts, spec)->algorithm->name);
  };
  const std::string before = chosen(Collective::allreduce, 100, {});
  facts.tuned = table->section("a");
  CHECK(before == "oneshot");
  CHECK(chosen(Collective::allreduce, 100, {}) == "owners");
  CHECK(chosen(Collective::allreduce, 200, {}) == "oneshot");  // a ring adds up in another order
  CHECK(chosen(Collective::allreduce, 300, {}) == "oneshot");
  CHECK(chosen(Collective::allreduce, 16384, {}) == "oneshot");
  CHECK(choose(Collective::allreduce, 100, facts, {})->why == "measured to be quicker than the default");
  CHECK(choose(Collective::allreduce, 400, facts, {})->why == "the default for this size");  // the row names it
  CHECK(chosen(Collective::allreduce, 20000, {}) == "owners");                               // larger than a cell
  CHECK(chosen(Collective::allreduce, 30000, {}) == "owners");
  CHECK(chosen(Collective::allgather, 100, {}) == "bruck");
  CHECK(chosen(Collective::allreduce, 100, AlgorithmSpec::parse("allreduce:direct").value()) == "direct");
  facts.determinism = 2;
  CHECK(chosen(Collective::allreduce, 100, {}) == "owners");
  CHECK(same_sums(*find_algorithm(Collective::allreduce, "ring"), *find_algorithm(Collective::allreduce, "ring")));
  CHECK(!same_sums(*find_algorithm(Collective::allreduce, "ring"), *find_algorithm(Collective::allreduce, "tree")));
}
