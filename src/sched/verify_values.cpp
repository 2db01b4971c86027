#include "sched/verify_values.h"

#include <algorithm>
#include <bit>
#include <string>

namespace rondo {

Result<Values::Value> Values::sum(std::span<const Value> operands) {
  uint64_t hash = operands.size();
  for (const Value value : operands) hash = (hash ^ value) * 0x9e3779b97f4a7c15u + (hash >> 31);
  const auto [first, last] = known_.equal_range(hash);
  for (auto it = first; it != last; ++it) {
    const Sum& sum = sums_[index(it->second)];
    if (std::equal(operands.begin(), operands.end(), operands_.begin() + sum.operands,
                   operands_.begin() + sum.operands + sum.operand_count))
      return it->second;
  }
  std::vector<uint64_t> set(words_, 0);
  uint32_t ranks = 0;
  const uint32_t chunk = this->chunk(operands[0]);
  for (const Value value : operands) {
    if (this->chunk(value) != chunk) return fail(Code::invalid, "adds chunk {} to chunk {}", this->chunk(value), chunk);
    for (size_t word = 0; word < words_; ++word) {
      const uint64_t leaf_bit = is_leaf(value) && leaf_rank(value) / 64 == word ? 1ull << leaf_rank(value) % 64 : 0;
      const uint64_t bits = is_leaf(value) ? leaf_bit : sets_[index(value) * words_ + word];
      if ((set[word] & bits) != 0)
        return fail(Code::invalid, "counts rank {} twice in chunk {}",
                    word * 64 + static_cast<size_t>(std::countr_zero(set[word] & bits)), chunk);
      set[word] |= bits;
      ranks += static_cast<uint32_t>(std::popcount(bits));
    }
  }
  const Value value = first_sum() + static_cast<Value>(sums_.size());
  sums_.push_back({chunk, ranks, static_cast<uint32_t>(operands_.size()), static_cast<uint32_t>(operands.size())});
  operands_.insert(operands_.end(), operands.begin(), operands.end());
  sets_.insert(sets_.end(), set.begin(), set.end());
  known_.emplace(hash, value);
  return value;
}

std::string Values::text(Value value) const {
  if (value == kUnwritten) return "nothing";
  if (value == kTorn) return "a value that is being written";
  if (is_leaf(value)) return fmt::format("chunk {} of rank {}", chunk(value), leaf_rank(value));
  return fmt::format("the sum of {} ranks of chunk {}", sums_[index(value)].ranks, chunk(value));
}

}  // namespace rondo
