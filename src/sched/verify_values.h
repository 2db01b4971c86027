// The symbolic values of the verifier: what a chunk holds, as the exact tree of reductions over the inputs of ranks.
// Equal trees have equal numbers. Used by verify.cpp only.
#pragma once

#include <cstdint>
#include <span>
#include <unordered_map>
#include <vector>

#include "base/status.h"

namespace rondo {

class Values {
 public:
  using Value = uint32_t;
  static constexpr Value kUnwritten = 0;  // nothing was ever written here
  static constexpr Value kTorn = 1;       // a pending step is writing here

  Values(uint32_t world, uint32_t chunks) : world_(world), chunks_(chunks), words_((world + 63) / 64) {}

  // The chunk `chunk` of the input of `rank`.
  Value leaf(uint32_t rank, uint32_t chunk) const { return 2 + rank * chunks_ + chunk; }
  bool is_leaf(Value value) const { return value >= 2 && value < first_sum(); }
  uint32_t chunk(Value value) const { return is_leaf(value) ? (value - 2) % chunks_ : sums_[index(value)].chunk; }
  uint32_t leaf_rank(Value value) const { return (value - 2) / chunks_; }

  // The reduction of `operands` in their order. Invalid where a rank would count twice or chunks differ.
  Result<Value> sum(std::span<const Value> operands);

  // Whether every rank is in it exactly once.
  bool complete(Value value) const {
    return is_leaf(value) ? world_ == 1 : value >= first_sum() && sums_[index(value)].ranks == world_;
  }
  std::string text(Value value) const;

 private:
  struct Sum {
    uint32_t chunk;
    uint32_t ranks;                    // how many
    uint32_t operands, operand_count;  // into operands_
  };
  Value first_sum() const { return 2 + world_ * chunks_; }
  size_t index(Value value) const { return value - first_sum(); }

  uint32_t world_, chunks_;
  size_t words_;
  std::vector<Sum> sums_;
  std::vector<Value> operands_;
  std::vector<uint64_t> sets_;  // words_ for each sum
  std::unordered_multimap<uint64_t, Value> known_;
};

}  // namespace rondo
