// --tune: measures what the default choice of every call costs beside the others that give the same bits, and keeps in
// a file those that are clearly quicker. The library reads the file (RONDO_TUNE).
#pragma once

#include <cstddef>
#include <string>
#include <vector>

#include "perf/job.h"

namespace rondo::perf {

// An alternative replaces the default where the lower bound of default / alternative is at least this.
inline constexpr double kTuneLeast = 1.05;

// What was found for one call: the algorithm, or "default".
struct Verdict {
  std::string collective;
  size_t bytes = 0;  // as rondo_explain counts them
  std::string algorithm, comment;
};

// The rows of a section for one collective's verdicts, by ascending size. Between two sizes the boundary is their
// geometric mean; below the first, unless that is 8 bytes or less, and above the last the default stays.
std::string tuning_rows(const std::vector<Verdict>& verdicts);

// The text of a tuning file in which `rows` are those of section `key` for `collectives`. `before`, the file as it was
// (empty: none), keeps its other rows and sections, except for sections of another version of Rondo and, where the text
// would be more than the library reads, the earliest. Not empty: why `before` is no tuning file.
ErrorText merge_tuning(const std::string& before, const std::string& key, const std::vector<std::string>& collectives,
                       const std::string& rows, std::string& after);

// Measures every call, prints one line a call where it `speaks`, and writes the file on rank 0.
ErrorText tune(const Job& job, const Options& options, std::vector<Call> calls, size_t in_bytes, size_t out_bytes,
               bool speaks);

}  // namespace rondo::perf
