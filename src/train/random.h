// A small generator with the same numbers on every machine (the distributions of <random> differ between libraries).
// SplitMix64: one 64-bit word of state, any seed is good.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <utility>

namespace rondo::train {

class Random {
 public:
  explicit Random(uint64_t seed) : state_(seed) {}

  uint64_t next() {
    uint64_t z = (state_ += 0x9e3779b97f4a7c15u);
    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
    z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
    return z ^ (z >> 31);
  }
  // In [0, bound); the bias is below bound / 2^32. bound must fit in 32 bits.
  size_t below(size_t bound) { return static_cast<size_t>(((next() >> 32) * bound) >> 32); }
  // In [-limit, limit), exact in float arithmetic.
  float symmetric(float limit) { return (static_cast<float>(next() >> 40) * 0x1p-23f - 1.0f) * limit; }
  template <class T>
  void shuffle(std::span<T> items) {
    for (size_t left = items.size(); left > 1; --left) std::swap(items[left - 1], items[below(left)]);
  }

 private:
  uint64_t state_;
};

}  // namespace rondo::train
