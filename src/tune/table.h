// Measured choices: a text of sections, one for each kind of communicator on a kind of machine, whose rows say which
// algorithm runs a collective up to a size. What no row covers, and what says "default", is chosen as without a table.
// A value; const use from any thread.
//
//   rondo tuning 1
//   [0.1.0; AMD EPYC 25/17; all transports; 2 ranks, hosts of 2, 1 a processor]
//   allreduce 4096 oneshot       # up to 4096 bytes, as choose() counts them
//   allreduce 65536 default
#pragma once

#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

#include "algo/registry.h"
#include "base/status.h"

namespace rondo {

struct TuningRow {
  Collective collective = Collective::allreduce;
  size_t most_bytes = 0;
  const Algorithm* algorithm = nullptr;  // null: the default
};

struct TuningSection {
  std::string key;
  std::vector<TuningRow> rows;  // of one collective: ascending

  // The row that covers a call, or null.
  const TuningRow* find(Collective collective, size_t bytes) const;
  // "4096 oneshot, 65536 default"; empty: no row.
  std::string rows_of(Collective collective) const;
};

class TuningTable {
 public:
  static constexpr size_t kMostBytes = 32 << 10;  // of the text

  // Invalid, with `origin`, line, value and what was expected: a text that is no table. An empty text is an empty one.
  static Result<TuningTable> parse(std::string_view text, std::string_view origin);
  // Null when there is none.
  const TuningSection* section(std::string_view key) const;

 private:
  std::vector<TuningSection> sections_;
};

}  // namespace rondo
