// The element types by their textbook definitions, written apart from kernels/ so that tests have something of their
// own to compare with. Test code only; pure.
#pragma once

#include <bit>
#include <cmath>
#include <cstdint>

#include "base/types.h"

namespace rondo::kernels::by_definition {

struct Layout {
  int exponent_bits, mantissa_bits;
  bool has_infinity;

  uint32_t sign() const { return 1u << (exponent_bits + mantissa_bits); }
  // The largest finite pattern: E4M3 gives up only the last one.
  uint32_t largest() const { return has_infinity ? infinity() - 1 : sign() - 2; }
  uint32_t infinity() const { return ((1u << exponent_bits) - 1) << mantissa_bits; }
  uint32_t nan() const { return has_infinity ? infinity() + (1u << (mantissa_bits - 1)) : sign() - 1; }
};

inline constexpr Layout kFloat16 = {5, 10, true}, kBFloat16 = {8, 7, true}, kE4M3 = {4, 3, false}, kE5M2 = {5, 2, true};

inline Layout layout_of(DType dtype) {
  if (dtype == DType::float16) return kFloat16;
  if (dtype == DType::bfloat16) return kBFloat16;
  return dtype == DType::float8_e4m3 ? kE4M3 : kE5M2;
}

// The value of a bit pattern by the textbook formula; NaN where the pattern is one.
inline double value(const Layout& layout, uint32_t bits) {
  const int bias = (1 << (layout.exponent_bits - 1)) - 1;
  const int top = (1 << layout.exponent_bits) - 1;
  const int exponent = static_cast<int>(bits >> layout.mantissa_bits) & top;
  const int mantissa = static_cast<int>(bits) & ((1 << layout.mantissa_bits) - 1);
  const double sign = (bits & layout.sign()) != 0 ? -1.0 : 1.0;
  if (layout.has_infinity && exponent == top) return mantissa == 0 ? sign * INFINITY : NAN;
  if (!layout.has_infinity && exponent == top && mantissa == (1 << layout.mantissa_bits) - 1) return NAN;
  if (exponent == 0) return sign * std::ldexp(mantissa, 1 - bias - layout.mantissa_bits);
  return sign * std::ldexp(mantissa + (1 << layout.mantissa_bits), exponent - bias - layout.mantissa_bits);
}

// The pattern nearest to `number`, found by bisection among the patterns; a tie takes the even pattern. Overflow begins
// half a step beyond the largest number.
inline uint32_t nearest(const Layout& layout, double number) {
  if (std::isnan(number)) return layout.nan();
  const uint32_t sign = std::signbit(number) ? layout.sign() : 0;
  const double magnitude = std::fabs(number);
  uint32_t low = 0, high = layout.largest();
  if (magnitude >= value(layout, high)) {
    const double half_step = (value(layout, high) - value(layout, high - 1)) / 2;
    const double limit = value(layout, high) + half_step;
    const bool tie_overflows = high % 2 == 1;
    const bool overflows = magnitude > limit || (magnitude == limit && tie_overflows);
    if (!overflows) return sign | high;
    return layout.has_infinity ? sign | layout.infinity() : layout.nan();
  }
  while (high - low > 1) {
    const uint32_t middle = (low + high) / 2;
    (value(layout, middle) <= magnitude ? low : high) = middle;
  }
  const double below = magnitude - value(layout, low), above = value(layout, high) - magnitude;
  if (below == above) return sign | (low % 2 == 0 ? low : high);
  return sign | (below < above ? low : high);
}

}  // namespace rondo::kernels::by_definition
