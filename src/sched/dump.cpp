#include "sched/dump.h"

#include <algorithm>
#include <iterator>

#include <fmt/format.h>

#include "sched/walker.h"

namespace rondo {
namespace {

using Text = std::back_insert_iterator<std::string>;

void write_chunk(Text out, Place place, uint32_t chunk) {
  static constexpr std::string_view kNames[] = {"input", "output", "scratch", "?"};
  fmt::format_to(out, "{}:{}", kNames[std::min<size_t>(static_cast<size_t>(place), 3)], chunk);
}

// The list at `offset`, or nothing where it leaves the vector.
std::span<const uint32_t> list_in_bounds(const Schedule& s, uint32_t offset) {
  if (offset == 0 || offset >= s.peers.size() || s.peers[offset] > s.peers.size() - offset - 1) return {};
  return s.list(offset);
}

void write_list(Text out, const Schedule& s, uint32_t offset, bool star_me) {
  const std::span<const uint32_t> ranks = list_in_bounds(s, offset);
  if (ranks.empty()) {
    fmt::format_to(out, "[?]");
    return;
  }
  for (size_t i = 0; i < ranks.size(); ++i)
    fmt::format_to(out, "{}{}{}", i == 0 ? "[" : " ", ranks[i], star_me && ranks[i] == s.rank ? "*" : "");
  fmt::format_to(out, "]");
}

void write_value(Text out, const Schedule& s, const Step& step) {
  const std::span<const uint32_t> from = list_in_bounds(s, step.from);
  const bool stores = has(step, kStore);
  if (!has(step, kRecv)) {
    write_chunk(out, step.src_place, step.src_chunk);
    return;
  }
  std::string_view role = stores ? "" : " size ";
  if (has(step, kReduce)) {
    fmt::format_to(out, "reduce ");
    write_list(out, s, step.from, true);
    if (std::find(from.begin(), from.end(), s.rank) != from.end()) role = " own ";
  } else if (from.size() == 1) {
    fmt::format_to(out, "recv {}", from[0]);
  } else {
    fmt::format_to(out, "recv ");
    write_list(out, s, step.from, false);
  }
  if (role.empty()) return;
  fmt::format_to(out, "{}", role);
  write_chunk(out, step.src_place, step.src_chunk);
}

std::string header(const Schedule& s) {
  std::string text = fmt::format("schedule {} world {} rank {} root {} chunks {} lanes {}\n", name(s.collective),
                                 s.world, s.rank, s.root, s.chunks, s.lanes);
  if (s.scratch.empty()) return text;
  return text + fmt::format("scratch {}\n", fmt::join(s.scratch, " "));
}

std::vector<std::string> step_lines(const Schedule& s) {
  std::vector<std::string> lines;
  for (uint32_t lane = 0; lane < s.lanes; ++lane)
    for (uint32_t at = 0; at < s.lane(lane).size(); ++at)
      lines.push_back(fmt::format("lane {} {:2}: {}\n", lane, at, describe(s, s.lane(lane)[at])));
  return lines;
}

}  // namespace

std::string describe(const Schedule& schedule, const Step& step) {
  std::string text;
  const Text out(text);
  if (step.verbs == 0) {
    text = "idle";
  } else {
    write_value(out, schedule, step);
    if (has(step, kStore)) {
      fmt::format_to(out, " -> ");
      write_chunk(out, step.dst_place, step.dst_chunk);
    }
    if (has(step, kSend)) {
      fmt::format_to(out, " -> send ");
      write_list(out, schedule, step.to, false);
    }
    if ((step.verbs & (kStore | kSend)) == 0) fmt::format_to(out, " -> drop");
  }
  if ((step.flags & kFinal) != 0) fmt::format_to(out, " final");
  if (step.wait_step != 0) fmt::format_to(out, " wait {}:{}", step.wait_lane, step.wait_step);
  return text;
}

std::string dump(const Schedule& schedule) {
  std::string text = header(schedule);
  for (const std::string& line : step_lines(schedule)) text += line;
  return text;
}

std::string diff(const Schedule& a, const Schedule& b) {
  if (a == b) return {};
  std::string text;
  if (header(a) != header(b)) text += "- " + header(a) + "+ " + header(b);
  // Lanes of the same number are compared as the longest common subsequence of their step texts would, but in linear
  // space: equal heads are skipped, then the nearest later line that agrees on either side.
  const auto steps_of = [](const Schedule& s, uint32_t lane) {
    std::vector<std::string> lines;
    if (lane < s.lanes)
      for (const Step& step : s.lane(lane)) lines.push_back(describe(s, step));
    return lines;
  };
  for (uint32_t lane = 0; lane < std::max(a.lanes, b.lanes); ++lane) {
    const std::vector<std::string> left = steps_of(a, lane), right = steps_of(b, lane);
    const auto only = [&](char sign, size_t at, const std::string& line) {
      text += fmt::format("{} lane {} {:2}: {}\n", sign, lane, at, line);
    };
    size_t i = 0, j = 0;
    while (i < left.size() && j < right.size()) {
      if (left[i] == right[j]) {
        ++i, ++j;
        continue;
      }
      const size_t in_right = static_cast<size_t>(std::find(right.begin() + j, right.end(), left[i]) - right.begin());
      const size_t in_left = static_cast<size_t>(std::find(left.begin() + i, left.end(), right[j]) - left.begin());
      if (in_right == right.size() || (in_left != left.size() && in_left - i < in_right - j)) {
        only('-', i, left[i]);
        ++i;
      } else {
        only('+', j, right[j]);
        ++j;
      }
    }
    for (; i < left.size(); ++i) only('-', i, left[i]);
    for (; j < right.size(); ++j) only('+', j, right[j]);
  }
  return text;
}

}  // namespace rondo
