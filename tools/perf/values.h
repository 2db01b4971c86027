// The data that rondo-perf moves and what must come out of it. Each rank's input repeats a block of kPeriod elements,
// rotated by the iteration: filling and checking are then copies and compares, so that the data can change with every
// iteration, while a period that is no power of two makes misplaced chunks and stale data differ.
//
// Results are exact, whatever the order of summation. Integers take any value and wrap. For SUM and AVG of floating
// types the values are whole numbers so small, and for few significant bits non-zero on so few ranks, that every
// partial sum is representable; factors of a PROD are powers of two; MAX and MIN choose. The one tolerance: AVG of
// floating types over a number of ranks that is no power of two may differ by one unit in the last place, as 1/world is
// itself rounded.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <string>

#include "perf/collective.h"
#include "rondo/rondo.h"

namespace rondo::perf {

class Values {
 public:
  static constexpr size_t kPeriod = 8191;

  Values(rondo_dtype dtype, rondo_redop redop, bool reduces, uint32_t world);

  // Writes elements [first, first + count) of rank `rank`'s input of iteration `iteration`.
  void fill(void* data, size_t count, uint32_t rank, size_t first, uint64_t iteration);

  // How many of the elements at `data` are not what `expectation` says.
  size_t wrong(const void* data, const Expectation& expectation, uint64_t iteration);

 private:
  const std::string& block(uint32_t rank);
  std::string make_input(uint32_t rank) const;
  std::string make_reduced() const;
  bool same(const char* one, const char* other) const;

  rondo_dtype dtype_;
  rondo_redop redop_;
  bool reduces_;
  uint32_t world_;
  size_t size_;
  bool tolerant_;
  std::map<uint32_t, std::string> blocks_;  // by rank, made when first needed; kReduced: the result
};

// The pure parts, for the tests.

// Bits of `value` in a floating type, rounded to nearest even; value must be in the type's range.
uint64_t encode(rondo_dtype dtype, double value);
bool is_floating(rondo_dtype dtype);

}  // namespace rondo::perf
