// Where the table of measured choices comes from, and which of its sections fits. Rank 0's file counts: its text
// travels with its card, so that all ranks choose alike. Any thread.
#pragma once

#include <string>

#include "base/config.h"
#include "base/log.h"
#include "base/status.h"

namespace rondo {

// What measured choices hold for: version, processor (name, family and model as the system tells them, or "unknown"),
// allowed transports. "0.1.0; AMD EPYC 25/17; all transports".
std::string tuning_machine(const Config& config);

// The text of the file that RONDO_TUNE names, which is a table; empty: none. Invalid: the named file cannot be read or
// is no table; one that "auto" has found is then left out with a warning.
Result<std::string> read_tuning(const Config& config, const Logger& log);

}  // namespace rondo
