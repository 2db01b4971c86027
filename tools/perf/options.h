// What the user asked rondo-perf for: plain values, the same on all ranks.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "perf/collective.h"
#include "rondo/rondo.h"

namespace rondo::perf {

enum class Forms : uint8_t { both, in_place, out_of_place };

struct Options {
  std::vector<Kind> kinds;
  std::vector<rondo_dtype> dtypes;
  std::vector<rondo_redop> redops;
  size_t bytes_first = 8;
  size_t bytes_last = size_t{16} << 20;
  double factor = 2;
  size_t step = 0;          // bytes; 0: multiply by factor instead
  uint32_t iterations = 0;  // 0: as many as fit in about 0.3 s per size
  uint32_t warmup = 5;
  uint32_t burst = 0;  // calls per timed iteration; 0: several where calls are short
  bool check = true;
  bool verify_only = false;
  bool shared_memory = false;  // buffers from rondo_alloc
  bool persistent = false;     // start and wait instead of blocking calls
  bool quiet = false;
  bool regret = false;  // compare every choice with what could be forced instead
  bool tune = false;    // keep in a file which others are quicker than the default
  Forms forms = Forms::both;
  int32_t root = 0;  // -1: every root in turn
  std::string algorithm, transports, json, csv, plot, output;
};

// Fills `options` from the command line. False: end with `exit_code`; what there is to say has been said.
bool parse(int count, char** arguments, Options& options, int& exit_code);

// "64", "8K", "1.5M", "2GiB": binary multiples; false for anything else.
bool parse_bytes(const std::string& text, size_t& bytes);

// The sizes of a run, strictly ascending from bytes_first to at most bytes_last.
std::vector<size_t> sizes(const Options& options);

}  // namespace rondo::perf
