// The oracle: every pair of element type and operator as plain loops, one element at a time, written to be checked by
// eye and not to be fast. Every other table must give the same bits.
#include <bit>
#include <cmath>
#include <cstring>
#include <limits>
#include <type_traits>

#include "kernels/float_formats.h"
#include "kernels/tables.h"

namespace rondo::kernels {
namespace {

// An element type to the oracle: `Bits` as it lies in memory, `Wide` as it is computed with, and the way between them.
template <class T>
struct Integer {
  using Bits = T;
  using Value = T;
  using Wide = uint64_t;  // modulo 2^64 first and 2^bits at the end is modulo 2^bits
  static Wide widen(Bits bits) { return static_cast<Wide>(bits); }
  static Bits narrow(Wide wide) { return static_cast<Bits>(wide); }
  static Bits average(Wide sum, uint32_t divisor) {
    using Half = std::conditional_t<std::is_signed_v<T>, int64_t, uint64_t>;
    return static_cast<Bits>(static_cast<Half>(narrow(sum)) / static_cast<Half>(divisor));
  }
};

template <class Float, class Unsigned, Unsigned nan>
struct Whole {
  using Bits = Unsigned;
  using Value = Float;
  using Wide = Float;
  static Wide widen(Bits bits) { return std::bit_cast<Float>(bits); }
  static Bits narrow(Wide wide) { return std::isnan(wide) ? nan : std::bit_cast<Unsigned>(wide); }
  static Bits average(Wide sum, uint32_t divisor) { return narrow(sum * reciprocal(Float{}, divisor)); }
};

template <class Format>
struct Narrow {
  using Bits = typename Format::Bits;
  using Value = float;
  using Wide = float;
  static Wide widen(Bits bits) { return Format::widen(bits); }
  static Bits narrow(Wide wide) { return Format::round(wide); }
  static Bits average(Wide sum, uint32_t divisor) { return narrow(sum * reciprocal(float{}, divisor)); }
};

// -0 orders before +0 and a NaN wins.
template <class Float>
Float larger(Float a, Float b) {
  if (std::isnan(a) || std::isnan(b)) return std::numeric_limits<Float>::quiet_NaN();
  if (a == b) return std::signbit(a) ? b : a;
  return a < b ? b : a;
}
template <class Float>
Float smaller(Float a, Float b) {
  if (std::isnan(a) || std::isnan(b)) return std::numeric_limits<Float>::quiet_NaN();
  if (a == b) return std::signbit(a) ? a : b;
  return b < a ? b : a;
}

template <class Element, RedOp op>
typename Element::Wide combine(typename Element::Wide a, typename Element::Wide b) {
  using Value = typename Element::Value;
  constexpr bool kOrders = op == RedOp::max || op == RedOp::min;
  if constexpr (op == RedOp::sum || op == RedOp::avg) return a + b;
  if constexpr (op == RedOp::prod) return a * b;
  if constexpr (kOrders && std::is_floating_point_v<Value>) return op == RedOp::max ? larger(a, b) : smaller(a, b);
  if constexpr (kOrders && std::is_integral_v<Value>) {
    const bool a_first = static_cast<Value>(a) < static_cast<Value>(b);
    return a_first == (op == RedOp::max) ? b : a;
  }
  if constexpr (op == RedOp::band) return a & b;
  if constexpr (op == RedOp::bor) return a | b;
  if constexpr (op == RedOp::bxor) return a ^ b;
}

template <class Element>
typename Element::Bits bits_at(const void* array, size_t index) {
  typename Element::Bits bits;
  std::memcpy(&bits, static_cast<const char*>(array) + index * sizeof(bits), sizeof(bits));
  return bits;
}

// Pairing level by level with the odd one carried up is the same as splitting before the largest power of two that
// leaves something on the right. The recursion is as deep as the tree, 32 at most.
template <class Element, RedOp op>
typename Element::Wide tree(const void* const* sources, uint32_t source_count, size_t index) {
  if (source_count == 1) return Element::widen(bits_at<Element>(sources[0], index));
  if (source_count == 2)
    return combine<Element, op>(Element::widen(bits_at<Element>(sources[0], index)),
                                Element::widen(bits_at<Element>(sources[1], index)));
  const uint32_t left_count = std::bit_floor(source_count - 1);
  return combine<Element, op>(tree<Element, op>(sources, left_count, index),
                              tree<Element, op>(sources + left_count, source_count - left_count, index));
}

template <class Element, RedOp op>
void reduce(const ReduceArgs& args) {
  const bool scaled = op == RedOp::avg && args.divisor > 1;
  for (size_t index = 0; index < args.count; ++index) {
    typename Element::Bits bits;
    if (scaled) {
      bits = Element::average(tree<Element, op>(args.sources, args.source_count, index), args.divisor);
    } else if (args.source_count == 1) {
      bits = bits_at<Element>(args.sources[0], index);
    } else {
      bits = Element::narrow(tree<Element, op>(args.sources, args.source_count, index));
    }
    const size_t offset = index * sizeof(bits);
    std::memcpy(static_cast<char*>(args.dst) + offset, &bits, sizeof(bits));
    if (args.dst2 != nullptr) std::memcpy(static_cast<char*>(args.dst2) + offset, &bits, sizeof(bits));
  }
}

template <class Element>
void scale(void* dst, const void* src, size_t count, double factor) {
  const auto by = static_cast<typename Element::Wide>(factor);
  for (size_t index = 0; index < count; ++index) {
    const typename Element::Bits bits = Element::narrow(Element::widen(bits_at<Element>(src, index)) * by);
    std::memcpy(static_cast<char*>(dst) + index * sizeof(bits), &bits, sizeof(bits));
  }
}

template <class Element>
void add_rows(Table& table, DType dtype) {
  ReduceFn* row = table.reduce[static_cast<size_t>(dtype)];
  row[static_cast<size_t>(RedOp::sum)] = reduce<Element, RedOp::sum>;
  row[static_cast<size_t>(RedOp::prod)] = reduce<Element, RedOp::prod>;
  row[static_cast<size_t>(RedOp::max)] = reduce<Element, RedOp::max>;
  row[static_cast<size_t>(RedOp::min)] = reduce<Element, RedOp::min>;
  row[static_cast<size_t>(RedOp::avg)] = reduce<Element, RedOp::avg>;
  if constexpr (std::is_integral_v<typename Element::Value>) {
    row[static_cast<size_t>(RedOp::band)] = reduce<Element, RedOp::band>;
    row[static_cast<size_t>(RedOp::bor)] = reduce<Element, RedOp::bor>;
    row[static_cast<size_t>(RedOp::bxor)] = reduce<Element, RedOp::bxor>;
  } else {
    table.scale[static_cast<size_t>(dtype)] = scale<Element>;
  }
}

// The oracle is no data path, so libc serves here.
void plain_copy(void* dst, void* dst2, const void* src, size_t bytes) {
  if (bytes == 0) return;
  if (dst != src) std::memcpy(dst, src, bytes);
  if (dst2 != nullptr) std::memcpy(dst2, src, bytes);
}

}  // namespace

void add_reference_rows(Table& table) {
  add_rows<Integer<int8_t>>(table, DType::int8);
  add_rows<Integer<uint8_t>>(table, DType::uint8);
  add_rows<Integer<int16_t>>(table, DType::int16);
  add_rows<Integer<uint16_t>>(table, DType::uint16);
  add_rows<Integer<int32_t>>(table, DType::int32);
  add_rows<Integer<uint32_t>>(table, DType::uint32);
  add_rows<Integer<int64_t>>(table, DType::int64);
  add_rows<Integer<uint64_t>>(table, DType::uint64);
  add_rows<Whole<float, uint32_t, kFloatNan>>(table, DType::float32);
  add_rows<Whole<double, uint64_t, kDoubleNan>>(table, DType::float64);
  add_rows<Narrow<Float16>>(table, DType::float16);
  add_rows<Narrow<BFloat16>>(table, DType::bfloat16);
  add_rows<Narrow<Float8E4M3>>(table, DType::float8_e4m3);
  add_rows<Narrow<Float8E5M2>>(table, DType::float8_e5m2);
  table.copy = plain_copy;
  table.copy_stream = plain_copy;
}

}  // namespace rondo::kernels
