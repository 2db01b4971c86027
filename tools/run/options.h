// What the user asked rondo-run for: plain values, filled by the command line and read by every part.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace rondo::run {

enum class Bind { none, core, numa };
enum class OnDeath { end, keep_going };

struct Options {
  uint32_t ranks = 1;
  Bind bind = Bind::core;
  OnDeath on_death = OnDeath::end;
  double grace_s = 5;
  double timeout_s = 0;  // 0: no limit
  bool prefix = true;
  bool verbose = false;
  std::string output_dir;            // empty: the launcher's own stdout and stderr
  std::vector<std::string> set_env;  // NAME=VALUE
  std::vector<std::string> command;
};

// How a fallible function of the launcher reports: empty is success, otherwise one line that names the cause.
using ErrorText = std::string;

}  // namespace rondo::run
