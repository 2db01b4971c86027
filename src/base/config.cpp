#include "base/config.h"

#include <unistd.h>

#include <algorithm>
#include <cctype>
#include <charconv>
#include <numeric>
#include <utility>

#include "base/check.h"

namespace rondo {
namespace {

constexpr int64_t kRankMax = (int64_t{1} << 24) - 1;
constexpr int64_t kTimeMaxMs = int64_t{1000} * 60 * 60 * 24 * 365;
constexpr int64_t kBytesMax = int64_t{1} << 50;

constexpr std::array<KeyInfo, kKeyCount> kTable = {{
    {Key::rank, "RONDO_RANK", Kind::integer, "-1", "this process's rank, 0 to world - 1", 0, kRankMax},
    {Key::world, "RONDO_WORLD", Kind::integer, "-1", "number of ranks of the job", 1, kRankMax + 1},
    {Key::local_rank, "RONDO_LOCAL_RANK", Kind::integer, "-1", "rank among the ranks of this host", 0, kRankMax},
    {Key::local_world, "RONDO_LOCAL_WORLD", Kind::integer, "-1", "number of ranks on this host", 1, kRankMax + 1},
    {Key::rendezvous, "RONDO_RENDEZVOUS", Kind::text, "",
     "where ranks meet: tcp://host:port, file:///path, inproc://name"},
    {Key::key_file, "RONDO_KEY_FILE", Kind::text, "", "file with the job key, 64 hex digits"},
    {Key::require_key, "RONDO_REQUIRE_KEY", Kind::flag, "0", "refuse to join without a job key"},
    {Key::listen_fd, "RONDO_LISTEN_FD", Kind::integer, "-1", "inherited listening socket of rank 0's rendezvous", 0,
     INT32_MAX},
    {Key::host_id, "RONDO_HOST_ID", Kind::text, "", "name of this host among the job's hosts (default: found)"},
    {Key::transports, "RONDO_TRANSPORTS", Kind::text, "",
     "allowed transports, best first: shm,tcp (default: all built)"},
    {Key::interface, "RONDO_INTERFACE", Kind::text, "", "network interfaces: names, prefixes*, CIDR; ^ excludes"},
    {Key::port_range, "RONDO_PORT_RANGE", Kind::ports, "0-0", "ports to listen on, first-last; 0-0: any", 0, 65535},
    {Key::algorithm, "RONDO_ALGORITHM", Kind::text, "", "ring, or allreduce:tree;broadcast:^chain (default: chosen)"},
    {Key::determinism, "RONDO_DETERMINISM", Kind::choice, "A1",
     "A1 same bits for the same call, A2 for any algorithm and transport, A3 exact", 0, 0, "A1|A2|A3"},
    {Key::timeout_ms, "RONDO_TIMEOUT_MS", Kind::milliseconds, "600000",
     "time without progress that fails a call; -1: never", -1, kTimeMaxMs},
    {Key::liveness_ms, "RONDO_LIVENESS_MS", Kind::milliseconds, "5000",
     "silence after which a rank counts as lost; 0: off", 0, kTimeMaxMs},
    {Key::join_timeout_ms, "RONDO_JOIN_TIMEOUT_MS", Kind::milliseconds, "60000", "time that all ranks have to meet", 1,
     kTimeMaxMs},
    {Key::shm_bytes, "RONDO_SHM_BYTES", Kind::bytes, "64M", "budget of shared memory rings, per rank", 64 << 10,
     kBytesMax},
    {Key::slice_bytes, "RONDO_SLICE_BYTES", Kind::bytes, "0", "piece size of pipelined messages; 0: chosen", 0,
     kBytesMax},
    {Key::window, "RONDO_WINDOW", Kind::integer, "0", "pieces in flight per lane; 0: chosen", 0, 64},
    {Key::tune, "RONDO_TUNE", Kind::text, "auto",
     "file of measured choices, read by rank 0; auto: rondo/tuning in the user's cache folder, if there; off: none"},
    {Key::log, "RONDO_LOG", Kind::choice, "warn", "how much is logged", 0, 0, "error|warn|info|debug"},
    {Key::fake_hosts, "RONDO_FAKE_HOSTS", Kind::integer, "0", "treat this machine as that many hosts; 0: as one", 0,
     kRankMax},
}};

constexpr bool table_is_in_order() {
  for (size_t i = 0; i < kKeyCount; ++i)
    if (static_cast<size_t>(kTable[i].key) != i) return false;
  return true;
}
static_assert(table_is_in_order(), "the rows of kTable stand in the order of Key");

const KeyInfo* find(std::string_view name) {
  const auto row = std::find_if(kTable.begin(), kTable.end(), [&](const KeyInfo& k) { return k.name == name; });
  return row == kTable.end() ? nullptr : &*row;
}

std::string lower(std::string_view text) {
  std::string out(text);
  for (char& c : out) c = static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
  return out;
}

std::optional<int64_t> whole_number(std::string_view text) {
  int64_t value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc() || end != text.data() + text.size() || text.empty()) return std::nullopt;
  return value;
}

std::optional<int64_t> byte_count(std::string_view text) {
  int shift = 0;
  if (!text.empty()) {
    const size_t suffix = std::string_view("kmg").find(lower(text.substr(text.size() - 1)));
    if (suffix != std::string_view::npos) {
      shift = static_cast<int>(suffix + 1) * 10;
      text.remove_suffix(1);
    }
  }
  const auto value = whole_number(text);
  if (!value || *value < 0 || *value > (INT64_MAX >> shift)) return std::nullopt;
  return *value << shift;
}

std::optional<int64_t> truth(std::string_view text) {
  const std::string word = lower(text);
  if (word == "1" || word == "yes" || word == "true" || word == "on") return 1;
  if (word == "0" || word == "no" || word == "false" || word == "off") return 0;
  return std::nullopt;
}

std::optional<int64_t> word_index(std::string_view text, std::string_view choices) {
  const std::string wanted = lower(text);
  for (int64_t index = 0;; ++index) {
    const size_t bar = choices.find('|');
    if (lower(choices.substr(0, bar)) == wanted) return index;
    if (bar == std::string_view::npos) return std::nullopt;
    choices.remove_prefix(bar + 1);
  }
}

// Packed as first << 16 | last; a single number is a range of one port.
std::optional<int64_t> port_range(std::string_view text) {
  const size_t dash = text.find('-');
  const auto first = whole_number(text.substr(0, dash));
  const auto last = dash == std::string_view::npos ? first : whole_number(text.substr(dash + 1));
  if (!first || !last || *first < 0 || *last > 65535 || *first > *last) return std::nullopt;
  if (*first == 0 && *last != 0) return std::nullopt;
  return (*first << 16) | *last;
}

std::optional<int64_t> parse(const KeyInfo& key, std::string_view text) {
  switch (key.kind) {
    case Kind::text:
      return 0;
    case Kind::integer:
    case Kind::milliseconds:
      return whole_number(text);
    case Kind::bytes:
      return byte_count(text);
    case Kind::flag:
      return truth(text);
    case Kind::choice:
      return word_index(text, key.choices);
    case Kind::ports:
      return port_range(text);
  }
  return std::nullopt;
}

bool has_range(Kind kind) { return kind == Kind::integer || kind == Kind::milliseconds || kind == Kind::bytes; }

std::string expectation(const KeyInfo& key) {
  switch (key.kind) {
    case Kind::text:
      return "text";
    case Kind::integer:
      return fmt::format("a whole number from {} to {}", key.least, key.most);
    case Kind::milliseconds:
      return fmt::format("milliseconds, a whole number from {} to {}", key.least, key.most);
    case Kind::bytes:
      return fmt::format("bytes, a whole number from {} to {} with an optional suffix K, M or G", key.least, key.most);
    case Kind::flag:
      return "0 or 1";
    case Kind::choice:
      return fmt::format("one of {}", key.choices);
    case Kind::ports:
      return "first-last with 1 <= first <= last <= 65535, or 0-0";
  }
  return "";
}

size_t edit_distance(std::string_view a, std::string_view b) {
  std::vector<size_t> row(b.size() + 1);
  std::iota(row.begin(), row.end(), size_t{0});
  for (size_t i = 0; i < a.size(); ++i) {
    size_t diagonal = row[0];
    row[0] = i + 1;
    for (size_t j = 0; j < b.size(); ++j) {
      const size_t substituted = diagonal + (a[i] == b[j] ? 0 : 1);
      diagonal = row[j + 1];
      row[j + 1] = std::min({substituted, row[j] + 1, row[j + 1] + 1});
    }
  }
  return row[b.size()];
}

// " (nearest known name: RONDO_X)", or nothing when no name is near.
std::string nearest_hint(std::string_view name) {
  if (name.size() > 64) return "";
  constexpr size_t kNear = 4;
  const KeyInfo* best = nullptr;
  size_t best_distance = kNear;
  for (const KeyInfo& key : kTable) {
    const size_t distance = edit_distance(name, key.name);
    if (distance < best_distance) {
      best = &key;
      best_distance = distance;
    }
  }
  return best ? fmt::format(" (nearest known name: {})", best->name) : "";
}

bool name_character(char c) {
  return std::isupper(static_cast<unsigned char>(c)) || std::isdigit(static_cast<unsigned char>(c)) || c == '_';
}

std::string_view trimmed(std::string_view text) {
  constexpr std::string_view kBlank = " \t\r\n";
  const size_t first = text.find_first_not_of(kBlank);
  if (first == std::string_view::npos) return {};
  return text.substr(first, text.find_last_not_of(kBlank) - first + 1);
}

// "RONDO_RANK=3" and the like: an upper-case name directly followed by '='.
bool starts_assignment(std::string_view text) {
  const auto end = std::find_if_not(text.begin(), text.end(), name_character);
  return end != text.begin() && end != text.end() && *end == '=';
}

struct Assignment {
  const KeyInfo* key;
  std::string value;
};

Result<std::vector<Assignment>> parse_override(std::string_view text) {
  std::vector<Assignment> out;
  while (!text.empty()) {
    const size_t semicolon = text.find(';');
    const std::string_view raw = text.substr(0, semicolon);
    const std::string_view piece = trimmed(raw);
    text.remove_prefix(semicolon == std::string_view::npos ? text.size() : semicolon + 1);
    if (piece.empty()) continue;
    if (!starts_assignment(piece)) {
      if (out.empty()) return fail(Code::invalid, "config string: '{}' is not NAME=value", piece);
      out.back().value += fmt::format(";{}", piece);
      continue;
    }
    const std::string_view name = piece.substr(0, piece.find('='));
    const KeyInfo* key = find(name);
    if (!key) return fail(Code::invalid, "config string: unknown name {}{}", name, nearest_hint(name));
    out.push_back({key, std::string(trimmed(piece.substr(name.size() + 1)))});
  }
  return out;
}

}  // namespace

const KeyInfo& info(Key key) { return kTable[static_cast<size_t>(key)]; }

std::string_view name(Source source) {
  switch (source) {
    case Source::fallback:
      return "default";
    case Source::launcher:
      return "launcher";
    case Source::environment:
      return "environment";
    case Source::options_config:
      return "options.config";
    case Source::options:
      return "options";
  }
  return "";
}

Config::Config() : environment_(std::make_shared<const Environment>()) {
  for (const KeyInfo& key : kTable)
    entries_[static_cast<size_t>(key.key)] = {key.initial, parse(key, key.initial).value_or(0), Source::fallback};
}

Result<Config> Config::from_environment(const char* override_string) {
  size_t count = 0;
  while (environ && environ[count]) ++count;
  return from(std::span<const char* const>(environ, count), override_string);
}

Result<Config> Config::from(std::span<const char* const> environment, const char* override_string) {
  auto assignments = parse_override(override_string ? override_string : "");
  if (!assignments.ok()) return assignments.status();

  Config config;
  auto captured = std::make_shared<Environment>();
  for (const std::string_view variable : environment) {
    const size_t equals = variable.find('=');
    if (equals != std::string_view::npos) captured->emplace(variable.substr(0, equals), variable.substr(equals + 1));
  }
  config.environment_ = captured;

  for (const auto& [name, value] : *captured) {
    if (!name.starts_with("RONDO_")) continue;
    const KeyInfo* key = find(name);
    if (!key) {
      config.warnings_.push_back(fmt::format("unknown environment variable {}{}", name, nearest_hint(name)));
      continue;
    }
    const bool replaced = std::any_of(assignments->begin(), assignments->end(),
                                      [&](const Assignment& a) { return a.key == key && !a.value.empty(); });
    if (!replaced) RONDO_TRY(config.set(key->key, trimmed(value), Source::environment));
  }
  for (const Assignment& a : *assignments)
    if (!a.value.empty()) RONDO_TRY(config.set(a.key->key, a.value, Source::options_config));
  return config;
}

Status Config::set(Key key, std::string_view value, Source source) {
  const KeyInfo& row = info(key);
  Entry& entry = entries_[static_cast<size_t>(key)];
  if (value.empty()) {
    entry = {row.initial, parse(row, row.initial).value_or(0), Source::fallback};
    return {};
  }
  const auto number = parse(row, value);
  if (!number || (has_range(row.kind) && (*number < row.least || *number > row.most)))
    return fail(Code::invalid, "{}={} (from {}): expected {}", row.name, value, name(source), expectation(row));
  entry = {std::string(value), *number, source};
  return {};
}

int64_t Config::number(Key key, Kind kind) const {
  RONDO_CHECK(info(key).kind == kind);
  return entry(key).number;
}

const std::string& Config::text(Key key) const { return entry(key).text; }
int64_t Config::integer(Key key) const { return number(key, Kind::integer); }
int64_t Config::milliseconds(Key key) const { return number(key, Kind::milliseconds); }
int64_t Config::bytes(Key key) const { return number(key, Kind::bytes); }
bool Config::flag(Key key) const { return number(key, Kind::flag) != 0; }
int Config::choice(Key key) const { return static_cast<int>(number(key, Kind::choice)); }

PortRange Config::ports(Key key) const {
  const int64_t packed = number(key, Kind::ports);
  return {static_cast<uint16_t>(packed >> 16), static_cast<uint16_t>(packed & 0xffff)};
}

std::optional<std::string> Config::foreign(const char* name) const {
  const auto found = environment_->find(std::string_view(name));
  if (found == environment_->end() || found->second.empty()) return std::nullopt;
  return found->second;
}

std::vector<ConfigRow> Config::describe() const {
  std::vector<ConfigRow> rows;
  for (const KeyInfo& key : kTable) {
    const Entry& e = entry(key.key);
    rows.push_back({key.name, e.text, std::string(name(e.source)), key.initial, key.doc});
  }
  return rows;
}

}  // namespace rondo
