#include <deque>
#include <map>
#include <tuple>

#include <fmt/format.h>

#include "sched/dump.h"

namespace rondo {
namespace {

std::string node(const Schedule& s, uint32_t lane, size_t at) { return fmt::format("r{}l{}s{}", s.rank, lane, at); }

void write_rank(std::string& text, const Schedule& s) {
  text += fmt::format("  subgraph cluster_{} {{\n    label=\"rank {}\";\n", s.rank, s.rank);
  for (uint32_t lane = 0; lane < s.lanes; ++lane)
    for (size_t at = 0; at < s.lane(lane).size(); ++at) {
      const Step& step = s.lane(lane)[at];
      text += fmt::format("    {} [label=\"{}.{} {}\"];\n", node(s, lane, at), lane, at, describe(s, step));
      if (at > 0) text += fmt::format("    {} -> {} [style=dotted];\n", node(s, lane, at - 1), node(s, lane, at));
      if (step.wait_step != 0)
        text += fmt::format("    {} -> {} [style=dashed];\n", node(s, step.wait_lane, step.wait_step - 1),
                            node(s, lane, at));
    }
  text += "  }\n";
}

}  // namespace

std::string dot(std::span<const Schedule> all_ranks) {
  std::string text = "digraph schedule {\n  node [shape=box];\n";
  std::map<std::tuple<uint32_t, uint32_t, uint32_t>, std::deque<std::string>> sends;  // (from, to, lane) -> nodes
  for (const Schedule& s : all_ranks) {
    write_rank(text, s);
    for (uint32_t lane = 0; lane < s.lanes; ++lane)
      for (size_t at = 0; at < s.lane(lane).size(); ++at)
        for (const uint32_t to : s.list(s.lane(lane)[at].to)) sends[{s.rank, to, lane}].push_back(node(s, lane, at));
  }
  for (const Schedule& s : all_ranks)
    for (uint32_t lane = 0; lane < s.lanes; ++lane)
      for (size_t at = 0; at < s.lane(lane).size(); ++at)
        for (const uint32_t from : s.list(s.lane(lane)[at].from)) {
          auto& queue = sends[{from, s.rank, lane}];
          if (from == s.rank || queue.empty()) continue;
          text += fmt::format("  {} -> {};\n", queue.front(), node(s, lane, at));
          queue.pop_front();
        }
  return text + "}\n";
}

}  // namespace rondo
