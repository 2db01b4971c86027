// The reference itself against arithmetic written here: sums in more than twice the precision, narrow formats by search
// among their patterns, integers in 128 bits, the tree level by level.
#include <catch2/catch.hpp>

#include <cstring>
#include <type_traits>
#include <vector>

#include "kernels/kernels.h"
#include "tests/kernels/formats_by_definition.h"

namespace rondo::kernels {
namespace {

__extension__ using Wide = __int128;
__extension__ using Quad = __float128;  // 113 bits: enough for one exact rounding of any fp64 sum or product

// Pairs (0,1) (2,3) ..., level by level, an odd one carried up unchanged.
template <class T, class Combine>
T tree(std::vector<T> level, Combine combine) {
  while (level.size() > 1) {
    std::vector<T> next;
    for (size_t i = 0; i + 1 < level.size(); i += 2) next.push_back(combine(level[i], level[i + 1]));
    if (level.size() % 2 == 1) next.push_back(level.back());
    level = next;
  }
  return level[0];
}

// One operation on fp32 through fp64 and on fp64 through Quad, rounded once: at least 2p+2 bits make that exact.
float rounded_sum(float a, float b) { return static_cast<float>(static_cast<double>(a) + static_cast<double>(b)); }
float rounded_product(float a, float b) { return static_cast<float>(static_cast<double>(a) * static_cast<double>(b)); }
double rounded_sum(double a, double b) { return static_cast<double>(static_cast<Quad>(a) + static_cast<Quad>(b)); }
double rounded_product(double a, double b) { return static_cast<double>(static_cast<Quad>(a) * static_cast<Quad>(b)); }

template <class Float>
Float floating(RedOp op, Float a, Float b) {
  if (op == RedOp::sum || op == RedOp::avg) return rounded_sum(a, b);
  if (op == RedOp::prod) return rounded_product(a, b);
  if (std::isnan(a) || std::isnan(b)) return NAN;
  // A strict order in which -0 comes before +0.
  const bool a_first = a < b || (a == b && std::signbit(a) && !std::signbit(b));
  return a_first == (op == RedOp::max) ? b : a;
}

uint64_t bits_of(float value) { return std::isnan(value) ? 0x7fc00000u : std::bit_cast<uint32_t>(value); }
uint64_t bits_of(double value) { return std::isnan(value) ? 0x7ff8000000000000u : std::bit_cast<uint64_t>(value); }

template <class Float>
Float reduced(RedOp op, const std::vector<Float>& values, uint32_t divisor) {
  const Float total = tree(values, [op](Float a, Float b) { return floating(op, a, b); });
  if (op != RedOp::avg || divisor <= 1) return total;
  return rounded_product(total, static_cast<Float>(1) / static_cast<Float>(divisor));
}

Wide as_integer(DType dtype, uint64_t bits) {
  const unsigned width = 8 * static_cast<unsigned>(size_of(dtype));
  const Wide modulus = static_cast<Wide>(1) << width;
  Wide value = static_cast<Wide>(bits) % modulus;
  if (info(dtype).is_signed && value >= modulus / 2) value -= modulus;
  return value;
}

uint64_t wrapped(DType dtype, Wide value) {
  const unsigned width = 8 * static_cast<unsigned>(size_of(dtype));
  const Wide modulus = static_cast<Wide>(1) << width;
  return static_cast<uint64_t>(((value % modulus) + modulus) % modulus);
}

Wide integer(DType dtype, RedOp op, Wide a, Wide b) {
  switch (op) {
    case RedOp::sum:
    case RedOp::avg:
      return as_integer(dtype, wrapped(dtype, a + b));
    case RedOp::prod: {
      // Split so that 64 by 64 bits stays inside 128 signed bits.
      const Wide half = static_cast<Wide>(1) << 32;
      return as_integer(dtype, wrapped(dtype, wrapped(dtype, a * (b / half)) * half + a * (b % half)));
    }
    case RedOp::max:
      return a > b ? a : b;
    case RedOp::min:
      return a < b ? a : b;
    case RedOp::band:
      return a & b;
    case RedOp::bor:
      return a | b;
    case RedOp::bxor:
      return a ^ b;
  }
  return 0;
}

uint64_t expected_bits(DType dtype, RedOp op, const std::vector<uint64_t>& operands, uint32_t divisor) {
  const bool scaled = op == RedOp::avg && divisor > 1;
  if (operands.size() == 1 && !scaled) return operands[0];
  if (dtype == DType::float64) {
    std::vector<double> values;
    for (const uint64_t bits : operands) values.push_back(std::bit_cast<double>(bits));
    return bits_of(reduced(op, values, divisor));
  }
  if (info(dtype).floating) {
    std::vector<float> values;
    for (const uint64_t bits : operands) {
      const auto narrow = static_cast<uint32_t>(bits);
      values.push_back(dtype == DType::float32
                           ? std::bit_cast<float>(narrow)
                           : static_cast<float>(by_definition::value(by_definition::layout_of(dtype), narrow)));
    }
    const float result = reduced(op, values, divisor);
    if (dtype == DType::float32) return bits_of(result);
    return by_definition::nearest(by_definition::layout_of(dtype), static_cast<double>(result));
  }
  std::vector<Wide> values;
  for (const uint64_t bits : operands) values.push_back(as_integer(dtype, bits));
  Wide result = tree(values, [dtype, op](Wide a, Wide b) { return integer(dtype, op, a, b); });
  if (scaled) result /= static_cast<Wide>(divisor);
  return wrapped(dtype, result);
}

// The result of one element through a table.
uint64_t table_bits(const Table& table, DType dtype, RedOp op, const std::vector<uint64_t>& operands,
                    uint32_t divisor) {
  std::vector<const void*> sources;
  for (const uint64_t& bits : operands) sources.push_back(&bits);  // little-endian: the low bytes come first
  uint64_t result = 0;
  table.reduce[static_cast<size_t>(dtype)][static_cast<size_t>(op)](
      {sources.data(), static_cast<uint32_t>(sources.size()), &result, nullptr, 1, divisor});
  return result;
}

uint64_t next_random(uint64_t& state) {
  state = state * 6364136223846793005u + 1442695040888963407u;
  return state ^ (state >> 29);
}

// Exponents near each other for the wide floats, else nearly every sum is one of its operands.
uint64_t random_operand(DType dtype, uint64_t& state) {
  const uint64_t bits = next_random(state);
  const uint64_t choice = next_random(state) >> 60;
  const uint64_t mask = size_of(dtype) == 8 ? ~uint64_t{0} : (uint64_t{1} << (8 * size_of(dtype))) - 1;
  if (choice < 2) return bits & mask & (uint64_t{1} << (8 * size_of(dtype) - 1));
  if (choice < 5 || !info(dtype).floating) return bits & mask;
  if (dtype == DType::float32) return (bits & 0x83ffffff) | 0x3c000000;
  if (dtype == DType::float64) return (bits & 0x807fffffffffffff) | 0x3f80000000000000;
  if (dtype == DType::bfloat16) return (bits & 0x83ff) | 0x3c00;
  return bits & mask;
}

constexpr DType kAllTypes[] = {DType::int8,   DType::uint8,   DType::int32,       DType::uint32,     DType::int64,
                               DType::uint64, DType::float16, DType::float32,     DType::float64,    DType::bfloat16,
                               DType::int16,  DType::uint16,  DType::float8_e4m3, DType::float8_e5m2};
constexpr RedOp kAllOps[] = {RedOp::sum, RedOp::prod, RedOp::max, RedOp::min,
                             RedOp::avg, RedOp::band, RedOp::bor, RedOp::bxor};

}  // namespace

TEST_CASE("reference: random operands give what exact arithmetic gives, for every pair and up to 40 sources") {
  uint64_t state = 42;
  for (const DType dtype : kAllTypes) {
    for (const RedOp op : kAllOps) {
      if (!is_defined(dtype, op)) continue;
      size_t wrong = 0;
      for (uint32_t trial = 0; trial < 3000; ++trial) {
        const uint32_t source_count = trial % 8 == 0 ? 1 + trial % 40 : 1 + trial % 7;
        const uint32_t divisor =
            op == RedOp::avg ? static_cast<uint32_t>(trial % 3 == 0 ? 0 : source_count + trial) : 0;
        std::vector<uint64_t> operands;
        for (uint32_t i = 0; i < source_count; ++i) operands.push_back(random_operand(dtype, state));
        wrong += table_bits(reference(), dtype, op, operands, divisor) != expected_bits(dtype, op, operands, divisor);
      }
      INFO(name(dtype) << " " << name(op));
      CHECK(wrong == 0);
    }
  }
}

TEST_CASE("reference: every pair of fp8 numbers gives what their definition gives") {
  for (const DType dtype : {DType::float8_e4m3, DType::float8_e5m2}) {
    for (const RedOp op : {RedOp::sum, RedOp::prod, RedOp::max, RedOp::min, RedOp::avg}) {
      size_t wrong = 0;
      for (uint64_t a = 0; a < 256; ++a) {
        for (uint64_t b = 0; b < 256; ++b) {
          wrong += table_bits(reference(), dtype, op, {a, b}, 2) != expected_bits(dtype, op, {a, b}, 2);
        }
      }
      INFO(name(dtype) << " " << name(op));
      CHECK(wrong == 0);
    }
  }
}

TEST_CASE("reference: NaN, infinity and signed zeros follow the rules written in kernels.h") {
  constexpr uint64_t kPlusZero = 0, kMinusZero = 0x80000000, kNan = 0x7fc00000, kInfinity = 0x7f800000;
  constexpr uint64_t kMinusInfinity = 0xff800000, kSignallingNan = 0xff800001, kOne = 0x3f800000;
  const auto bits = [](RedOp op, std::vector<uint64_t> operands, uint32_t divisor = 0) {
    return table_bits(reference(), DType::float32, op, operands, divisor);
  };
  CHECK(bits(RedOp::max, {kPlusZero, kMinusZero}) == kPlusZero);
  CHECK(bits(RedOp::max, {kMinusZero, kPlusZero}) == kPlusZero);
  CHECK(bits(RedOp::min, {kPlusZero, kMinusZero}) == kMinusZero);
  CHECK(bits(RedOp::min, {kMinusZero, kPlusZero}) == kMinusZero);
  CHECK(bits(RedOp::max, {kSignallingNan, kOne}) == kNan);
  CHECK(bits(RedOp::min, {kOne, kSignallingNan}) == kNan);
  CHECK(bits(RedOp::sum, {kInfinity, kMinusInfinity}) == kNan);
  CHECK(bits(RedOp::prod, {kInfinity, kMinusZero}) == kNan);
  CHECK(bits(RedOp::sum, {kMinusZero, kMinusZero}) == kMinusZero);
  CHECK(bits(RedOp::sum, {kSignallingNan}) == kSignallingNan);
  CHECK(bits(RedOp::avg, {kSignallingNan}, 1) == kSignallingNan);
  CHECK(bits(RedOp::avg, {kSignallingNan}, 2) == kNan);
}

TEST_CASE("reference: integer averages divide what has wrapped and truncate towards zero") {
  const auto int8 = [](std::vector<uint64_t> operands, uint32_t divisor) {
    return static_cast<int8_t>(table_bits(reference(), DType::int8, RedOp::avg, operands, divisor));
  };
  CHECK(int8({0x7f, 0x01}, 2) == -64);          // 127 + 1 wraps to -128
  CHECK(int8({0xfd, 0x00}, 2) == -1);           // -3 / 2
  CHECK(int8({0x80, 0x00}, 4294967295u) == 0);  // never divides by -1
  CHECK(table_bits(reference(), DType::int32, RedOp::avg, {0x80000000u, 0}, 0x80000000u) == 0xffffffffu);
}

}  // namespace rondo::kernels
