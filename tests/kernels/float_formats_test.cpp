// The narrow formats against their definitions, by the textbook formula and between neighbours.
#include <catch2/catch.hpp>

#include <bit>
#include <cmath>
#include <limits>

#include "kernels/float_formats.h"
#include "tests/kernels/formats_by_definition.h"

namespace rondo::kernels {
namespace {

using namespace by_definition;

template <class Format>
void check_widen(const Layout& layout) {
  const uint32_t patterns = 1u << (8 * sizeof(typename Format::Bits));
  size_t wrong = 0;
  for (uint32_t bits = 0; bits < patterns; ++bits) {
    const float widened = Format::widen(static_cast<typename Format::Bits>(bits));
    const double expected = value(layout, bits);
    const bool same = std::isnan(expected) ? std::isnan(widened)
                                           : widened == expected && std::signbit(widened) == std::signbit(expected);
    wrong += !same;
    wrong += Format::is_nan(static_cast<typename Format::Bits>(bits)) != std::isnan(expected);
  }
  CHECK(wrong == 0);
}

// Every pattern that is a number comes back as itself, every NaN as the canonical one.
template <class Format>
void check_round_trip() {
  const uint32_t patterns = 1u << (8 * sizeof(typename Format::Bits));
  size_t wrong = 0;
  for (uint32_t bits = 0; bits < patterns; ++bits) {
    const auto narrow = static_cast<typename Format::Bits>(bits);
    const uint32_t expected = Format::is_nan(narrow) ? Format::kNan : bits;
    wrong += Format::round(Format::widen(narrow)) != expected;
  }
  CHECK(wrong == 0);
}

// Between each two neighbours: the tie goes to the even one, its fp32 neighbours to the nearer one.
template <class Format>
void check_ties(const Layout& layout) {
  size_t wrong = 0;
  for (uint32_t bits = 0; bits < Format::kLargest; ++bits) {
    const double low = value(layout, bits), high = value(layout, bits + 1);
    const double middle = (low + high) / 2;
    const auto tie = static_cast<float>(middle);
    if (static_cast<double>(tie) != middle) continue;  // bf16 subnormals: fp32 has no number in between
    const uint32_t even = bits % 2 == 0 ? bits : bits + 1;
    for (const float sign : {1.0f, -1.0f}) {
      const uint32_t sign_bit = sign < 0 ? Format::kSign : 0;
      wrong += Format::round(sign * tie) != (even | sign_bit);
      wrong += Format::round(sign * std::nextafter(tie, 0.0f)) != (bits | sign_bit);
      wrong += Format::round(sign * std::nextafter(tie, INFINITY)) != ((bits + 1) | sign_bit);
    }
  }
  CHECK(wrong == 0);
}

// Overflow begins at the middle between the largest number and what would follow it.
template <class Format>
void check_overflow(float largest, float first_overflow, uint32_t positive, uint32_t negative) {
  CHECK(Format::round(largest) == Format::kLargest);
  CHECK(Format::round(std::nextafter(first_overflow, 0.0f)) == Format::kLargest);
  CHECK(Format::round(std::nextafter(first_overflow, INFINITY)) == positive);
  CHECK(Format::round(std::nextafter(-first_overflow, -INFINITY)) == negative);
  CHECK(Format::round(INFINITY) == positive);
  CHECK(Format::round(-INFINITY) == negative);
  CHECK(Format::round(std::numeric_limits<float>::max()) == positive);
  CHECK(Format::round(std::numeric_limits<float>::lowest()) == negative);
}

template <class Format>
void check_nan_and_zero() {
  for (const uint32_t bits : {0x7f800001u, 0xff800001u, 0x7fffffffu, 0xffffffffu, 0x7fc00000u, 0xffc00000u}) {
    CHECK(Format::round(std::bit_cast<float>(bits)) == Format::kNan);
  }
  CHECK(Format::round(0.0f) == 0);
  CHECK(Format::round(-0.0f) == Format::kSign);
}

}  // namespace

TEST_CASE("float formats: every pattern widens to the value that its format defines") {
  check_widen<Float16>(kFloat16);
  check_widen<BFloat16>(kBFloat16);
  check_widen<Float8E4M3>(kE4M3);
  check_widen<Float8E5M2>(kE5M2);
}

TEST_CASE("float formats: every number survives the way to fp32 and back") {
  check_round_trip<Float16>();
  check_round_trip<BFloat16>();
  check_round_trip<Float8E4M3>();
  check_round_trip<Float8E5M2>();
}

TEST_CASE("float formats: rounding takes the nearest number, and the even one of two as near") {
  check_ties<Float16>(kFloat16);
  check_ties<BFloat16>(kBFloat16);
  check_ties<Float8E4M3>(kE4M3);
  check_ties<Float8E5M2>(kE5M2);
}

TEST_CASE("float formats: fp16, bf16 and E5M2 overflow to infinity, E4M3 to the canonical NaN") {
  check_overflow<Float16>(65504.0f, 65520.0f, 0x7c00, 0xfc00);
  CHECK(Float16::round(65520.0f) == 0x7c00);
  check_overflow<Float8E5M2>(57344.0f, 61440.0f, 0x7c, 0xfc);
  CHECK(Float8E5M2::round(61440.0f) == 0x7c);
  check_overflow<Float8E4M3>(448.0f, 464.0f, 0x7f, 0x7f);
  CHECK(Float8E4M3::round(464.0f) == 0x7e);
  CHECK(BFloat16::round(std::bit_cast<float>(0x7f7f7fffu)) == 0x7f7f);
  CHECK(BFloat16::round(std::bit_cast<float>(0x7f7f8000u)) == 0x7f80);
  CHECK(BFloat16::round(std::bit_cast<float>(0xff7f8000u)) == 0xff80);
}

TEST_CASE("float formats: NaNs of any sign and payload become the canonical one, zeros keep their sign") {
  check_nan_and_zero<Float16>();
  check_nan_and_zero<BFloat16>();
  check_nan_and_zero<Float8E4M3>();
  check_nan_and_zero<Float8E5M2>();
  CHECK(Float16::kNan == 0x7e00);
  CHECK(BFloat16::kNan == 0x7fc0);
  CHECK(Float8E4M3::kNan == 0x7f);
  CHECK(Float8E5M2::kNan == 0x7e);
}

TEST_CASE("float formats: what is too small rounds to zero or to the smallest subnormal") {
  const float smallest16 = std::ldexp(1.0f, -24), smallest43 = std::ldexp(1.0f, -9);
  CHECK(Float16::round(smallest16 / 2) == 0);
  CHECK(Float16::round(std::nextafter(smallest16 / 2, 1.0f)) == 1);
  CHECK(Float16::round(smallest16 * 1.5f) == 2);
  CHECK(Float8E4M3::round(-smallest43 / 2) == 0x80);
  CHECK(Float8E4M3::round(std::nextafter(smallest43 / 2, 1.0f)) == 1);
  CHECK(Float16::round(std::numeric_limits<float>::denorm_min()) == 0);
  CHECK(Float8E5M2::round(-std::numeric_limits<float>::denorm_min()) == 0x80);
  CHECK(BFloat16::round(std::bit_cast<float>(0x00008000u)) == 0);
  CHECK(BFloat16::round(std::bit_cast<float>(0x00008001u)) == 1);
  CHECK(BFloat16::round(std::bit_cast<float>(0x00018000u)) == 2);
}

}  // namespace rondo::kernels
