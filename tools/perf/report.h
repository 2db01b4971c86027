// What rondo-perf prints and writes: the table, JSON, CSV. Rank 0 only.
#pragma once

#include <string>
#include <vector>

#include "perf/measure.h"
#include "perf/options.h"

namespace rondo::perf {

struct Row {
  Call call;
  std::string algorithm;
  Timing out_of_place, in_place;
};

struct Summary {
  std::string version;
  uint32_t world = 1, local_world = 1;
  std::string transports;  // as asked for
  std::string buffers;     // "private" or "rondo_alloc"
};

std::string header_text(const Summary& summary, const Options& options);
std::string column_text();
std::string row_text(const Row& row);
// Wrong elements of all rows; rows that were not checked add nothing.
int64_t wrong_total(const std::vector<Row>& rows);

std::string json_text(const Summary& summary, const Options& options, const std::vector<Row>& rows);
std::string csv_text(const std::vector<Row>& rows);

// Prints the text on stdout at once, on the rank that `speaks`.
void say(bool speaks, const std::string& text);

// Empty, or why the file could not be written. "-" is stdout.
ErrorText write_file(const std::string& path, const std::string& text);

}  // namespace rondo::perf
