#include "perf/values.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstdlib>
#include <cstring>

namespace rondo::perf {
namespace {

// A floating type: stored mantissa bits, exponent bias, width. The hidden bit makes one significant bit more.
struct Format {
  int mantissa, bias, bits;
};

Format format_of(rondo_dtype dtype) {
  switch (dtype) {
    case RONDO_FLOAT16:
      return {10, 15, 16};
    case RONDO_BFLOAT16:
      return {7, 127, 16};
    case RONDO_FLOAT8_E4M3:
      return {3, 7, 8};
    case RONDO_FLOAT8_E5M2:
      return {2, 15, 8};
    case RONDO_FLOAT64:
      return {52, 1023, 64};
    default:
      return {23, 127, 32};
  }
}

bool is_signed_integer(rondo_dtype dtype) {
  return dtype == RONDO_INT8 || dtype == RONDO_INT16 || dtype == RONDO_INT32 || dtype == RONDO_INT64;
}

uint64_t hash(uint64_t rank, uint64_t index) {
  uint64_t x = (rank + 1) * 0x9e3779b97f4a7c15u + index * 0xd1b54a32d192ed03u;
  x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9u;
  x = (x ^ (x >> 27)) * 0x94d049bb133111ebu;
  return x ^ (x >> 31);
}

size_t rotation(uint64_t iteration) {
  return static_cast<size_t>(iteration % Values::kPeriod * 1237 % Values::kPeriod);
}

// A whole number of which `world` ones add up without rounding in `significant` bits.
double term(uint32_t rank, uint32_t world, size_t index, int significant) {
  const uint64_t limit = uint64_t{1} << std::min(significant, 20);
  const uint64_t stride = (world + limit - 1) / limit;
  if ((rank + index) % stride != 0) return 0;
  const auto magnitude = static_cast<int64_t>(std::max<uint64_t>(1, limit / world));
  const auto span = static_cast<uint64_t>(2 * magnitude + 1);
  return static_cast<double>(static_cast<int64_t>(hash(rank, index) % span) - magnitude);
}

// Plus or minus a power of two, other than one on at most four ranks, so that no product leaves even the 8-bit types.
double power(uint32_t rank, uint32_t world, size_t index) {
  const uint64_t bits = hash(rank, index);
  const double sign = (bits & 1) != 0 ? -1 : 1;
  if ((rank + index) % world >= 4) return sign;
  return sign * std::ldexp(1.0, static_cast<int>(bits >> 1) % 3 == 0 ? 0 : (bits & 2) != 0 ? 1 : -1);
}

double input_value(rondo_dtype dtype, rondo_redop redop, uint32_t rank, uint32_t world, size_t index) {
  if (redop == RONDO_PROD) return power(rank, world, index);
  const bool adds = redop == RONDO_SUM || redop == RONDO_AVG;
  return term(rank, adds ? world : 1, index, format_of(dtype).mantissa + 1);
}

// Any bits, except where most results would then be the same: factors of a PROD are odd, and few bits are zero for
// BAND, few are one for BOR.
uint64_t input_integer(rondo_redop redop, uint32_t rank, size_t index) {
  const uint64_t bits = hash(rank, index);
  const uint64_t few = bits & std::rotl(bits, 21) & std::rotl(bits, 43);
  switch (redop) {
    case RONDO_PROD:
      return bits | 1;
    case RONDO_BAND:
      return ~few;
    case RONDO_BOR:
      return few;
    default:
      return bits;
  }
}

uint64_t fold_integer(rondo_redop redop, bool is_signed, uint64_t one, uint64_t other) {
  const bool less = is_signed ? static_cast<int64_t>(one) < static_cast<int64_t>(other) : one < other;
  switch (redop) {
    case RONDO_PROD:
      return one * other;
    case RONDO_MAX:
      return less ? other : one;
    case RONDO_MIN:
      return less ? one : other;
    case RONDO_BAND:
      return one & other;
    case RONDO_BOR:
      return one | other;
    case RONDO_BXOR:
      return one ^ other;
    default:
      return one + other;
  }
}

// Cuts to the type's width and extends again by its sign.
uint64_t narrow(uint64_t value, size_t size, bool is_signed) {
  const int unused = 64 - static_cast<int>(size) * 8;
  const uint64_t high = value << unused;
  return is_signed ? static_cast<uint64_t>(static_cast<int64_t>(high) >> unused) : high >> unused;
}

uint64_t divide(uint64_t value, uint32_t world, bool is_signed) {
  return is_signed ? static_cast<uint64_t>(static_cast<int64_t>(value) / static_cast<int64_t>(world)) : value / world;
}

double fold_floating(rondo_redop redop, double one, double other) {
  switch (redop) {
    case RONDO_PROD:
      return one * other;
    case RONDO_MAX:
      return std::max(one, other);
    case RONDO_MIN:
      return std::min(one, other);
    default:
      return one + other;
  }
}

void put(std::string& block, size_t index, size_t size, uint64_t bits) {
  std::memcpy(block.data() + index * size, &bits, size);
}

// Sign and magnitude as one ordered number, so that neighbours differ by one.
int64_t ordered(const char* data, size_t size) {
  uint64_t bits = 0;
  std::memcpy(&bits, data, size);
  const uint64_t sign = uint64_t{1} << (size * 8 - 1);
  const auto magnitude = static_cast<int64_t>(bits & (sign - 1));
  return (bits & sign) != 0 ? -magnitude : magnitude;
}

}  // namespace

bool is_floating(rondo_dtype dtype) {
  return (dtype >= RONDO_FLOAT16 && dtype <= RONDO_FLOAT64) || (dtype >= RONDO_BFLOAT16 && dtype <= RONDO_FLOAT8_E5M2);
}

uint64_t encode(rondo_dtype dtype, double value) {
  if (dtype == RONDO_FLOAT64) return std::bit_cast<uint64_t>(value);
  if (dtype == RONDO_FLOAT32) return std::bit_cast<uint32_t>(static_cast<float>(value));
  const Format format = format_of(dtype);
  const uint64_t sign = std::signbit(value) ? uint64_t{1} << (format.bits - 1) : 0;
  if (value == 0) return sign;
  // Subnormal numbers share the least exponent. A mantissa that rounds up to the next power of two carries into the
  // exponent by plain addition.
  const int exponent = std::max(std::ilogb(value), 1 - format.bias);
  const auto mantissa = static_cast<uint64_t>(std::nearbyint(std::ldexp(std::fabs(value), format.mantissa - exponent)));
  return sign | (mantissa + (static_cast<uint64_t>(exponent + format.bias - 1) << format.mantissa));
}

Values::Values(rondo_dtype dtype, rondo_redop redop, bool reduces, uint32_t world)
    : dtype_(dtype),
      redop_(redop),
      reduces_(reduces),
      world_(world),
      size_(rondo_dtype_size(dtype)),
      tolerant_(reduces && redop == RONDO_AVG && is_floating(dtype) && !std::has_single_bit(world)) {}

const std::string& Values::block(uint32_t rank) {
  auto [at, fresh] = blocks_.try_emplace(rank);
  if (fresh) at->second = rank == Expectation::kReduced ? make_reduced() : make_input(rank);
  return at->second;
}

// Without a reduction any bits will do, those of NaNs included.
std::string Values::make_input(uint32_t rank) const {
  std::string block(kPeriod * size_, '\0');
  for (size_t index = 0; index < kPeriod; ++index) {
    uint64_t bits = hash(rank, index);
    if (reduces_ && is_floating(dtype_)) bits = encode(dtype_, input_value(dtype_, redop_, rank, world_, index));
    if (reduces_ && !is_floating(dtype_)) bits = input_integer(redop_, rank, index);
    put(block, index, size_, bits);
  }
  return block;
}

std::string Values::make_reduced() const {
  std::string block(kPeriod * size_, '\0');
  const bool is_signed = is_signed_integer(dtype_);
  for (size_t index = 0; index < kPeriod; ++index) {
    if (is_floating(dtype_)) {
      double result = input_value(dtype_, redop_, 0, world_, index);
      for (uint32_t rank = 1; rank < world_; ++rank) {
        result = fold_floating(redop_, result, input_value(dtype_, redop_, rank, world_, index));
      }
      if (redop_ == RONDO_AVG && dtype_ == RONDO_FLOAT64) result *= 1.0 / world_;
      if (redop_ == RONDO_AVG && dtype_ != RONDO_FLOAT64) {
        result = static_cast<float>(result) * (1.0f / static_cast<float>(world_));
      }
      put(block, index, size_, encode(dtype_, result));
    } else {
      uint64_t result = narrow(input_integer(redop_, 0, index), size_, is_signed);
      for (uint32_t rank = 1; rank < world_; ++rank) {
        result = fold_integer(redop_, is_signed, result, narrow(input_integer(redop_, rank, index), size_, is_signed));
      }
      result = narrow(result, size_, is_signed);
      put(block, index, size_, redop_ == RONDO_AVG ? divide(result, world_, is_signed) : result);
    }
  }
  return block;
}

bool Values::same(const char* one, const char* other) const {
  if (std::memcmp(one, other, size_) == 0) return true;
  return tolerant_ && std::llabs(ordered(one, size_) - ordered(other, size_)) <= 1;
}

void Values::fill(void* data, size_t count, uint32_t rank, size_t first, uint64_t iteration) {
  const std::string& source = block(rank);
  char* out = static_cast<char*>(data);
  size_t at = (first % kPeriod + rotation(iteration)) % kPeriod;
  while (count > 0) {
    const size_t run = std::min(count, kPeriod - at);
    std::memcpy(out, source.data() + at * size_, run * size_);
    out += run * size_;
    count -= run;
    at = 0;
  }
}

size_t Values::wrong(const void* data, const Expectation& expectation, uint64_t iteration) {
  const std::string& source = block(expectation.from);
  const char* got = static_cast<const char*>(data) + expectation.at * size_;
  size_t left = expectation.count, bad = 0;
  size_t at = (expectation.first % kPeriod + rotation(iteration)) % kPeriod;
  while (left > 0) {
    const size_t run = std::min(left, kPeriod - at);
    const char* want = source.data() + at * size_;
    if (std::memcmp(got, want, run * size_) != 0) {
      for (size_t index = 0; index < run; ++index) bad += !same(got + index * size_, want + index * size_);
    }
    got += run * size_;
    left -= run;
    at = 0;
  }
  return bad;
}

}  // namespace rondo::perf
