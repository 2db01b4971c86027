// Config: every knob of Rondo with its value and where the value came from. This is the one reader of environment
// variables: the environment is captured once, when a Config is made, and never read again. A knob is one row of the
// table in config.cpp and one Key. A Config is a value; const use from any thread is safe.
//
// Precedence, highest first: options, options.config, environment, launcher, default. An empty value means "not set".
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/status.h"

namespace rondo {

// One per row of the table, in its order.
enum class Key : uint8_t {
  rank,
  world,
  local_rank,
  local_world,
  rendezvous,
  key_file,
  require_key,
  listen_fd,
  host_id,
  transports,
  interface,
  port_range,
  algorithm,
  determinism,
  timeout_ms,
  liveness_ms,
  join_timeout_ms,
  shm_bytes,
  slice_bytes,
  window,
  tune,
  log,
  fake_hosts,
};
inline constexpr size_t kKeyCount = static_cast<size_t>(Key::fake_hosts) + 1;

enum class Kind : uint8_t { text, integer, milliseconds, bytes, flag, choice, ports };

enum class Source : uint8_t { fallback, launcher, environment, options_config, options };
std::string_view name(Source source);  // "default", "launcher", "environment", "options.config", "options"

struct KeyInfo {
  Key key;
  const char* name;  // the variable's name: RONDO_…
  Kind kind;
  const char* initial;  // the default, as text; need not lie in the allowed range (-1: not known)
  const char* doc;      // one line
  int64_t least = 0;    // integer kinds: the allowed range
  int64_t most = INT64_MAX;
  const char* choices = "";  // choice: the words, separated by '|'
};
const KeyInfo& info(Key key);

struct PortRange {
  uint16_t first = 0, last = 0;  // 0-0: any port
  bool operator==(const PortRange&) const = default;
};

struct ConfigRow {
  std::string name, value, source, initial, doc;
};

class Config {
 public:
  // All defaults and an empty environment.
  Config();

  // From this process's environment, then `override_string` ("NAME=value;NAME=value", may be null or empty). A ';' that
  // is not followed by "NAME=" belongs to the value before it, so that algorithm lists need no quoting.
  // Invalid: a value that its knob does not take, or an unknown name in the override string. An unknown RONDO_ name in
  // the environment is only a warning. A wrong environment value that the override replaces does no harm.
  static Result<Config> from_environment(const char* override_string);
  // The same with the environment given, as "NAME=value" strings; where a name stands twice the first counts.
  static Result<Config> from(std::span<const char* const> environment, const char* override_string);

  // Stores a value; empty puts the default back. Invalid: not a value of this knob; nothing is changed then.
  [[nodiscard]] Status set(Key key, std::string_view value, Source source);

  // The getter must fit the knob's kind (a CHECK).
  const std::string& text(Key key) const;
  int64_t integer(Key key) const;
  int64_t milliseconds(Key key) const;
  int64_t bytes(Key key) const;
  bool flag(Key key) const;
  int choice(Key key) const;  // the index among the words of KeyInfo::choices
  PortRange ports(Key key) const;

  Source source(Key key) const { return entry(key).source; }
  bool given(Key key) const { return source(key) != Source::fallback; }

  // A variable of another launcher (or any other) as it was captured; nullopt when absent or empty.
  std::optional<std::string> foreign(const char* name) const;

  // One line for every RONDO_ name of the environment that is not in the table; made when the Config was.
  const std::vector<std::string>& warnings() const { return warnings_; }
  // One row per knob, in table order.
  std::vector<ConfigRow> describe() const;

 private:
  struct Entry {
    std::string text;
    int64_t number = 0;
    Source source = Source::fallback;
  };
  using Environment = std::map<std::string, std::string, std::less<>>;

  const Entry& entry(Key key) const { return entries_[static_cast<size_t>(key)]; }
  int64_t number(Key key, Kind kind) const;

  std::array<Entry, kKeyCount> entries_;
  std::shared_ptr<const Environment> environment_;  // shared by copies, never changed
  std::vector<std::string> warnings_;
};

}  // namespace rondo
