// rondo-sched: shows and checks Schedules: list, dump, verify, dot, diff. Dump files are input from anywhere; they are
// parsed strictly. Exit codes: 0 fine, 1 not proven or different, 2 wrong use or unreadable input.
#include <cstdio>
#include <fstream>
#include <iterator>
#include <optional>
#include <string>
#include <vector>

#include <fmt/format.h>
#include <CLI/CLI.hpp>

#include "algo/registry.h"
#include "sched/dump.h"
#include "sched/fuse.h"
#include "sched/verify.h"

using namespace rondo;

namespace {

struct Choice {
  std::string collective = "allreduce", algorithm;
  uint32_t world = 4, lanes = 1, root = 0;
  std::vector<uint32_t> order;
  bool fused = false;
};

void add_choice(CLI::App& app, Choice& choice) {
  app.add_option("-c,--collective", choice.collective, "allreduce, reduce, broadcast, ...")->capture_default_str();
  app.add_option("-a,--algorithm", choice.algorithm, "as `rondo-sched list` names it");
  app.add_option("-w,--world", choice.world, "number of ranks")->check(CLI::Range(1, 4096))->capture_default_str();
  app.add_option("-l,--lanes", choice.lanes, "lanes")->check(CLI::Range(1, 64))->capture_default_str();
  app.add_option("-r,--root", choice.root, "root of rooted collectives")->capture_default_str();
  app.add_option("--order", choice.order, "ring order of the ranks, for example 0,2,1,3")->delimiter(',');
  app.add_flag("--fused", choice.fused, "after the fuse pass");
}

Result<std::vector<Schedule>> generate(const Choice& choice) {
  const auto collective = collective_named(choice.collective);
  if (!collective)
    return fail(Code::invalid, "'{}' is no collective; `rondo-sched list` shows them", choice.collective);
  const Algorithm* algorithm = find_algorithm(*collective, choice.algorithm);
  if (algorithm == nullptr)
    return fail(Code::invalid, "{} has no algorithm '{}'; `rondo-sched list` shows them", choice.collective,
                choice.algorithm);
  if (algorithm->generate == nullptr)
    return fail(Code::invalid, "{} {} is an intrinsic of shared memory: it has no steps", choice.collective,
                choice.algorithm);
  if (choice.root >= choice.world)
    return fail(Code::invalid, "root {} is out of range, the world has {} ranks", choice.root, choice.world);
  std::vector<bool> seen(choice.world);
  for (const uint32_t rank : choice.order) {
    if (rank >= choice.world || seen[rank] || choice.order.size() != choice.world)
      return fail(Code::invalid, "--order: expected each of 0 to {} once, '{}' does not fit", choice.world - 1, rank);
    seen[rank] = true;
  }
  const Shape shape{.collective = *collective,
                    .world = choice.world,
                    .chunks = algorithm->chunks(choice.world, choice.lanes),
                    .lanes = choice.lanes,
                    .root = choice.root,
                    .order = choice.order};
  std::vector<Schedule> all;
  for (Rank rank = 0; rank < choice.world; ++rank) {
    Schedule schedule = algorithm->generate(shape, rank);
    all.push_back(choice.fused ? fuse(schedule) : std::move(schedule));
  }
  return all;
}

Result<std::vector<Schedule>> read(const std::string& path) {
  std::ifstream file(path);
  if (!file) return fail(Code::system, "{}: cannot be read", path);
  auto parsed = parse(std::string(std::istreambuf_iterator<char>(file), {}));
  if (!parsed.ok()) return fail(parsed.status().code(), "{}: {}", path, parsed.status().text());
  return parsed;
}

int complain(const Status& status, int code) {
  fmt::print(stderr, "rondo-sched: {}\n", status.text());
  return code;
}

int list() {
  fmt::print("{:<15} {:<20} {:<10} {}\n", "collective", "algorithm", "sum order", "cost");
  for (const Algorithm& a : algorithms())
    fmt::print("{:<15} {:<20} {:<10} {}{}\n", name(a.collective), a.name,
               a.order == SumOrder::canonical ? "canonical"
               : a.order == SumOrder::own     ? "own"
                                              : "-",
               a.cost, a.generate == nullptr ? " (intrinsic)" : "");
  return 0;
}

// With 1 to 3 slices, windows of 1 to 3, one and two operations in flight, in place where the collective has that form.
Status prove(const std::vector<Schedule>& all) {
  for (const uint32_t slices : {1u, 2u, 3u})
    for (const uint32_t window : {1u, 2u, 3u})
      for (const uint32_t operations : {1u, 2u})
        for (const bool in_place : {false, true}) {
          if (in_place && !has_in_place_form(all[0].collective)) continue;
          const Status proven = verify(
              all, {.window = window, .slices = slices, .operations_in_flight = operations, .in_place = in_place});
          if (!proven.ok())
            return fail(proven.code(), "{} slices, window {}, {} operations{}: {}", slices, window, operations,
                        in_place ? ", in place" : "", proven.text());
        }
  return {};
}

int verify_all(uint32_t most) {
  int failed = 0;
  for (const Algorithm& a : algorithms()) {
    if (a.generate == nullptr) continue;
    Status status;
    for (uint32_t world = 1; world <= most && status.ok(); ++world) {
      const auto all = generate({.collective = std::string(name(a.collective)),
                                 .algorithm = std::string(a.name),
                                 .world = world,
                                 .lanes = 2,
                                 .root = world - 1});
      status = all.ok() ? prove(all.value()) : all.status();
      if (!status.ok()) status = fail(status.code(), "world {}: {}", world, status.text());
    }
    fmt::print("{:<15} {:<20} {}\n", name(a.collective), a.name,
               status.ok() ? fmt::format("proven for worlds 1 to {}", most) : status.text());
    failed += status.ok() ? 0 : 1;
  }
  return failed == 0 ? 0 : 1;
}

}  // namespace

int main(int argc, char** argv) {
  CLI::App app{"Shows and checks Schedules, the programs that collectives are run from."};
  app.require_subcommand(1);
  Choice choice;
  std::optional<uint32_t> rank;
  std::string file, other;
  bool all = false;
  uint32_t worlds = 9;
  CLI::App* list_command = app.add_subcommand("list", "all algorithms");
  CLI::App* dump_command = app.add_subcommand("dump", "a schedule as text, one line a step");
  add_choice(*dump_command, choice);
  dump_command->add_option("--rank", rank, "only this rank's");
  CLI::App* verify_command = app.add_subcommand("verify", "proves a schedule, a dump file, or all algorithms");
  add_choice(*verify_command, choice);
  verify_command->add_option("file", file, "a dump of all ranks");
  verify_command->add_flag("--all", all, "every algorithm");
  verify_command->add_option("--worlds", worlds, "with --all: worlds 1 to this")
      ->check(CLI::Range(1, 64))
      ->capture_default_str();
  CLI::App* dot_command = app.add_subcommand("dot", "a schedule as a graph for Graphviz");
  add_choice(*dot_command, choice);
  CLI::App* diff_command = app.add_subcommand("diff", "how two dump files differ");
  diff_command->add_option("a", file)->required();
  diff_command->add_option("b", other)->required();
  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError& error) {
    return app.exit(error) == 0 ? 0 : 2;
  }
  if (*list_command) return list();
  if (*verify_command && all) return verify_all(worlds);
  if (*diff_command) {
    const auto a = read(file), b = read(other);
    if (!a.ok() || !b.ok()) return complain(a.ok() ? b.status() : a.status(), 2);
    if (a.value().size() != b.value().size())
      return complain(
          fail(Code::mismatch, "{} has {} ranks, {} has {}", file, a.value().size(), other, b.value().size()), 1);
    bool same = true;
    for (size_t i = 0; i < a.value().size(); ++i) {
      const std::string text = diff(a.value()[i], b.value()[i]);
      same = same && text.empty();
      fmt::print("{}", text);
    }
    return same ? 0 : 1;
  }
  const auto made = file.empty() ? generate(choice) : read(file);
  if (!made.ok()) return complain(made.status(), 2);
  const std::vector<Schedule>& schedules = made.value();
  if (*dot_command) {
    fmt::print("{}", dot(schedules));
  } else if (*verify_command) {
    const Status proven = prove(schedules);
    if (!proven.ok()) return complain(proven, 1);
    fmt::print("proven: {} ranks, 1 to 3 slices, windows 1 to 3, up to 2 operations in flight\n", schedules.size());
  } else {
    if (rank && *rank >= schedules.size())
      return complain(fail(Code::invalid, "rank {} is out of range, the world has {} ranks", *rank, schedules.size()),
                      2);
    for (const Schedule& schedule : schedules)
      if (!rank || schedule.rank == *rank) fmt::print("{}", dump(schedule));
  }
  return 0;
}
