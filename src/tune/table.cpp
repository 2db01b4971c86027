#include "tune/table.h"

#include <algorithm>
#include <charconv>

#include <fmt/core.h>

namespace rondo {
namespace {

constexpr std::string_view kHead = "rondo tuning 1";
constexpr std::string_view kSpace = " \t\r";

std::string_view trimmed(std::string_view text) {
  const size_t first = text.find_first_not_of(kSpace);
  if (first == std::string_view::npos) return {};
  return text.substr(first, text.find_last_not_of(kSpace) + 1 - first);
}

std::string_view next_word(std::string_view& text) {
  text = trimmed(text);
  const size_t end = std::min(text.find_first_of(kSpace), text.size());
  const std::string_view word = text.substr(0, end);
  text.remove_prefix(end);
  return word;
}

std::string names_of(Collective collective) {
  std::string names = "default";
  for (const Algorithm& algorithm : algorithms())
    if (algorithm.collective == collective) names += fmt::format(", {}", algorithm.name);
  return names;
}

// "allreduce 4096 oneshot". The message of a failure lacks the place.
Result<TuningRow> parse_row(std::string_view line) {
  TuningRow row;
  std::string_view rest = line;
  const std::string_view collective = next_word(rest), bytes = next_word(rest), name = next_word(rest);
  if (name.empty() || !trimmed(rest).empty())
    return fail(Code::invalid, "'{}': expected a collective, a number of bytes and an algorithm", line);
  const auto named = collective_named(collective);
  if (!named) return fail(Code::invalid, "'{}' is no collective", collective);
  row.collective = *named;
  const auto [end, error] = std::from_chars(bytes.data(), bytes.data() + bytes.size(), row.most_bytes);
  if (error != std::errc() || end != bytes.data() + bytes.size())
    return fail(Code::invalid, "'{}' is no number of bytes", bytes);
  if (name == "default") return row;
  row.algorithm = find_algorithm(row.collective, name);
  if (row.algorithm == nullptr)
    return fail(Code::invalid, "{} has no algorithm '{}'; expected one of: {}", collective, name,
                names_of(row.collective));
  return row;
}

Status add_row(TuningSection& section, const TuningRow& row) {
  for (const TuningRow& before : section.rows)
    if (before.collective == row.collective && before.most_bytes >= row.most_bytes)
      return fail(Code::invalid, "{} {} stands after {} {}; expected ascending bytes", name(row.collective),
                  row.most_bytes, name(row.collective), before.most_bytes);
  section.rows.push_back(row);
  return {};
}

}  // namespace

const TuningRow* TuningSection::find(Collective collective, size_t bytes) const {
  for (const TuningRow& row : rows)
    if (row.collective == collective && bytes <= row.most_bytes) return &row;
  return nullptr;
}

std::string TuningSection::rows_of(Collective collective) const {
  std::string text;
  for (const TuningRow& row : rows) {
    if (row.collective != collective) continue;
    text += fmt::format("{}{} {}", text.empty() ? "" : ", ", row.most_bytes,
                        row.algorithm == nullptr ? "default" : row.algorithm->name);
  }
  return text;
}

Result<TuningTable> TuningTable::parse(std::string_view text, std::string_view origin) {
  TuningTable table;
  if (text.size() > kMostBytes)
    return fail(Code::invalid, "{}: {} bytes, expected at most {}", origin, text.size(), kMostBytes);
  bool headed = false;
  for (size_t number = 1; !text.empty(); ++number) {
    const size_t end = std::min(text.find('\n'), text.size());
    const std::string_view whole = text.substr(0, end);
    text.remove_prefix(std::min(end + 1, text.size()));
    const std::string_view line = trimmed(whole.substr(0, whole.find('#')));
    if (line.empty()) continue;
    const auto wrong = [&](std::string_view what) { return fail(Code::invalid, "{}:{}: {}", origin, number, what); };
    if (!headed) {
      if (line != kHead) return wrong(fmt::format("'{}': expected '{}'", line.substr(0, 80), kHead));
      headed = true;
    } else if (line.front() == '[') {
      const std::string_view key = line.substr(1, line.size() - 2);
      if (line.back() != ']') return wrong(fmt::format("'{}': expected ']' at its end", line));
      if (table.section(key) != nullptr) return wrong(fmt::format("[{}] stands here for the second time", key));
      table.sections_.push_back({std::string(key), {}});
    } else {
      if (table.sections_.empty()) return wrong(fmt::format("'{}' stands before the first [section]", line));
      auto row = parse_row(line);
      if (!row.ok()) return wrong(row.status().text());
      if (const Status added = add_row(table.sections_.back(), *row); !added.ok()) return wrong(added.text());
    }
  }
  return table;
}

const TuningSection* TuningTable::section(std::string_view key) const {
  const auto found = std::find_if(sections_.begin(), sections_.end(), [&](const auto& s) { return s.key == key; });
  return found == sections_.end() ? nullptr : &*found;
}

}  // namespace rondo
