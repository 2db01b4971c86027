// The narrow floating formats in integer arithmetic: exact widening to fp32 and rounding from fp32 (nearest even).
// Used by the reference kernels, by tests and by whoever prints or makes test data. Pure; any thread.
//
//   format   sign exponent mantissa bias  largest  beyond the largest  canonical NaN
//   fp16        1        5       10   15    65504  infinity            0x7e00
//   bf16        1        8        7  127  3.39e38  infinity            0x7fc0
//   E4M3        1        4        3    7      448  NaN (no infinity)   0x7f
//   E5M2        1        5        2   15    57344  infinity            0x7e
//
// fp16 and bf16 follow IEEE 754; E4M3 and E5M2 follow the Open Compute Project's "8-bit floating point" (OFP8).
#pragma once

#include <bit>
#include <cstdint>

namespace rondo::kernels {

inline constexpr uint32_t kFloatNan = 0x7fc00000u;
inline constexpr uint64_t kDoubleNan = 0x7ff8000000000000u;
inline constexpr uint32_t kFloatInfinity = 0x7f800000u;

// A sign, exponent_bits and mantissa_bits, biased by 2^(exponent_bits-1)-1, with subnormals. With has_infinity the top
// exponent means infinity and NaN; without it only the all-ones pattern is NaN and the rest of that exponent is finite.
template <class Bits_, unsigned exponent_bits, unsigned mantissa_bits, bool has_infinity>
struct NarrowFloat {
  using Bits = Bits_;
  static constexpr bool kHasInfinity = has_infinity;
  static constexpr unsigned kMantissaBits = mantissa_bits;
  static constexpr int kBias = (1 << (exponent_bits - 1)) - 1;
  static constexpr uint32_t kSign = 1u << (exponent_bits + mantissa_bits);
  static constexpr uint32_t kMagnitude = kSign - 1;
  static constexpr uint32_t kInfinity = ((1u << exponent_bits) - 1) << mantissa_bits;  // only with has_infinity
  static constexpr uint32_t kNan = has_infinity ? kInfinity | (1u << (mantissa_bits - 1)) : kMagnitude;
  static constexpr uint32_t kLargest = has_infinity ? kInfinity - 1 : kMagnitude - 1;
  static constexpr unsigned kDropped = 23 - mantissa_bits;  // fp32 mantissa bits that rounding removes

  static constexpr bool is_nan(Bits bits) {
    const uint32_t magnitude = bits & kMagnitude;
    return has_infinity ? magnitude > kInfinity : magnitude == kMagnitude;
  }

  // Exact. A NaN keeps its sign and payload where the format has payloads.
  static constexpr float widen(Bits bits) {
    const uint32_t sign = (bits & kSign) << (31 - exponent_bits - mantissa_bits);
    const uint32_t magnitude = bits & kMagnitude;
    if (!has_infinity && magnitude == kMagnitude) return std::bit_cast<float>(sign | kFloatNan);
    if (has_infinity && magnitude >= kInfinity) {
      return std::bit_cast<float>(sign | kFloatInfinity | (magnitude << kDropped));
    }
    if (magnitude >> mantissa_bits != 0) {
      return std::bit_cast<float>(sign | ((magnitude << kDropped) + ((127u - kBias) << 23)));
    }
    if (magnitude == 0) return std::bit_cast<float>(sign);
    return std::bit_cast<float>(sign | widen_subnormal(magnitude));
  }

  // Rounds to nearest even; any NaN, and an overflow where there is no infinity, gives kNan.
  static constexpr Bits round(float value) {
    const uint32_t bits = std::bit_cast<uint32_t>(value);
    const uint32_t magnitude = bits & 0x7fffffffu;
    if (magnitude > kFloatInfinity) return static_cast<Bits>(kNan);
    const uint32_t sign = bits >> 31 != 0 ? kSign : 0;
    const uint32_t rounded = round_magnitude(magnitude);
    if (rounded <= kLargest) return static_cast<Bits>(sign | rounded);
    return static_cast<Bits>(has_infinity ? sign | kInfinity : kNan);
  }

 private:
  // The fp32 bits of magnitude * 2^(1 - bias - mantissa_bits). In bf16 that is a subnormal of fp32 too.
  static constexpr uint32_t widen_subnormal(uint32_t magnitude) {
    if (kBias == 127) return magnitude << kDropped;
    const unsigned top = 31u - static_cast<unsigned>(std::countl_zero(magnitude));
    const uint32_t exponent = 127u + 1u + top - static_cast<unsigned>(kBias) - mantissa_bits;
    return (exponent << 23) + ((magnitude << (23 - top)) & 0x7fffffu);
  }

  static constexpr uint32_t shift_round(uint32_t value, unsigned shift) {
    const uint32_t below_half = (1u << (shift - 1)) - 1;
    return (value + below_half + ((value >> shift) & 1u)) >> shift;
  }

  static constexpr uint32_t round_magnitude(uint32_t magnitude) {
    const int exponent = static_cast<int>(magnitude >> 23) - 127 + kBias;  // as the narrow format would store it
    if (kBias == 127 || exponent >= 1) return shift_round(magnitude, kDropped) - ((127u - kBias) << mantissa_bits);
    const unsigned shift = kDropped + static_cast<unsigned>(1 - exponent);
    if (shift > 25) return 0;  // below half of the smallest subnormal
    return shift_round((magnitude & 0x7fffffu) | 0x800000u, shift);
  }
};

using Float16 = NarrowFloat<uint16_t, 5, 10, true>;
using BFloat16 = NarrowFloat<uint16_t, 8, 7, true>;
using Float8E4M3 = NarrowFloat<uint8_t, 4, 3, false>;
using Float8E5M2 = NarrowFloat<uint8_t, 5, 2, true>;

}  // namespace rondo::kernels
