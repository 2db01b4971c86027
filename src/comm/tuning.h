// Where the table of measured choices comes from, and which of its sections fits. Rank 0's file counts: its text
// travels with its card, so that all ranks choose alike. Any thread.
#pragma once

#include "base/config.h"
#include "base/log.h"
#include "comm/card.h"

namespace rondo {

// Fills in what rank 0's card says of tuning: `machine`, what measured choices hold for (version, processor as the
// system names it, allowed transports), and `tuning`, the text of the file that RONDO_TUNE names, which is a table.
// `tuning_fault`: why the named file cannot be read or is no table; one that "auto" has found is then left out with a
// warning.
void describe_tuning(const Config& config, const Logger& log, Card& card);

}  // namespace rondo
