// Vector kernels of the integers where the sign does not matter (sum, prod, bit operations), and their averages.
#define HWY_DISABLED_TARGETS (HWY_SSSE3 | HWY_AVX3_DL | RONDO_DISABLED_ISAS)
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/simd_integer.cpp"
#include "hwy/foreach_target.h"
//
#include "kernels/simd-inl.h"

#if HWY_TARGET == HWY_SSE4 || HWY_TARGET == HWY_AVX2 || HWY_TARGET == HWY_AVX3
HWY_BEFORE_NAMESPACE();
namespace rondo::kernels::HWY_NAMESPACE {
namespace {

// There is no 8-bit multiplication: even and odd bytes are multiplied in 16-bit lanes, of which the low byte counts.
struct BytePairs {
  using D = hn::ScalableTag<uint16_t>;
  using Acc = Pair<hn::Vec<D>>;
  using Factor = uint8_t;
  using Memory = Bytes;
  static constexpr size_t kElement = 1;
  static HWY_INLINE Acc unpacked(hn::Vec<Bytes> memory) {
    const auto both = hn::BitCast(D(), memory);
    return {both, hn::ShiftRight<8>(both)};
  }
  static HWY_INLINE hn::Vec<Bytes> packed(Acc value) {
    return hn::BitCast(Bytes(), hn::Or(hn::And(value.low, hn::Set(D(), 0xff)), hn::ShiftLeft<8>(value.high)));
  }
};

// Exact: up to 16 bits in fp32 and 32 bits in fp64 a rounded quotient cannot reach the next integer.
template <class T>
struct Quotient {
  static T of(T value, uint32_t divisor) {
    return static_cast<T>(static_cast<int64_t>(static_cast<double>(value) / static_cast<double>(divisor)));
  }
};
template <class T>
struct SmallQuotient {
  static T of(T value, uint32_t divisor) {
    return static_cast<T>(static_cast<int32_t>(static_cast<float>(value) / static_cast<float>(divisor)));
  }
};
template <>
struct Quotient<int8_t> : SmallQuotient<int8_t> {};
template <>
struct Quotient<uint8_t> : SmallQuotient<uint8_t> {};
template <>
struct Quotient<int16_t> : SmallQuotient<int16_t> {};
template <>
struct Quotient<uint16_t> : SmallQuotient<uint16_t> {};
template <>
struct Quotient<int32_t> {
  static int32_t of(int32_t value, uint32_t divisor) {
    return static_cast<int32_t>(static_cast<double>(value) / static_cast<double>(divisor));
  }
};
template <>
struct Quotient<int64_t> {
  static int64_t of(int64_t value, uint32_t divisor) { return value / static_cast<int64_t>(divisor); }
};
template <>
struct Quotient<uint64_t> {
  static uint64_t of(uint64_t value, uint32_t divisor) { return value / divisor; }
};

template <class T>
HWY_NOINLINE void divide(uint8_t* dst, uint8_t* dst2, size_t count, uint32_t divisor) {
  for (size_t i = 0; i < count; ++i) {
    T value;
    __builtin_memcpy(&value, dst + i * sizeof(T), sizeof(T));
    value = Quotient<T>::of(value, divisor);
    __builtin_memcpy(dst + i * sizeof(T), &value, sizeof(T));
  }
  if (dst2 != nullptr) copy(dst2, nullptr, dst, count * sizeof(T));
}

constexpr size_t kDivideBytes = 8192;  // summed, then divided while they lie in the first-level cache

template <class T, class Unsigned>
void average_integer(const ReduceArgs& args) {
  if (args.divisor <= 1) return reduce<Whole<Unsigned>, Sum, sizeof(T)>(args);
  ReduceArgs to_dst = args;
  to_dst.dst2 = nullptr;
  const size_t end = args.count * sizeof(T);
  for (size_t begin = 0; begin < end; begin += kDivideBytes) {
    const size_t bytes = end - begin < kDivideBytes ? end - begin : kDivideBytes;
    uint8_t* dst = static_cast<uint8_t*>(args.dst) + begin;
    if (args.source_count == 1) {
      copy(dst, nullptr, static_cast<const uint8_t*>(args.sources[0]) + begin, bytes);
    } else {
      reduce_range<Whole<Unsigned>, Sum, false>(to_dst, begin, begin + bytes, Unsigned{});
    }
    uint8_t* second = args.dst2 == nullptr ? nullptr : static_cast<uint8_t*>(args.dst2) + begin;
    divide<T>(dst, second, bytes / sizeof(T), args.divisor);
  }
}

template <class Signed, class Unsigned, class ProdFormat>
void add_width(Table& table, DType signed_type, DType unsigned_type) {
  constexpr size_t kBytes = sizeof(Unsigned);
  using F = Whole<Unsigned>;
  using Raw = Whole<uint8_t>;
  for (const DType dtype : {signed_type, unsigned_type}) {
    ReduceFn* row = table.reduce[static_cast<size_t>(dtype)];
    row[static_cast<size_t>(RedOp::sum)] = reduce<F, Sum, kBytes>;
    row[static_cast<size_t>(RedOp::prod)] = reduce<ProdFormat, Prod, kBytes>;
    row[static_cast<size_t>(RedOp::band)] = reduce<Raw, BitAnd, kBytes>;
    row[static_cast<size_t>(RedOp::bor)] = reduce<Raw, BitOr, kBytes>;
    row[static_cast<size_t>(RedOp::bxor)] = reduce<Raw, BitXor, kBytes>;
  }
  table.reduce[static_cast<size_t>(signed_type)][static_cast<size_t>(RedOp::avg)] = average_integer<Signed, Unsigned>;
  table.reduce[static_cast<size_t>(unsigned_type)][static_cast<size_t>(RedOp::avg)] =
      average_integer<Unsigned, Unsigned>;
}

}  // namespace

void add_integer(Table& table) {
  add_width<int8_t, uint8_t, BytePairs>(table, DType::int8, DType::uint8);
  add_width<int16_t, uint16_t, Whole<uint16_t>>(table, DType::int16, DType::uint16);
  add_width<int32_t, uint32_t, Whole<uint32_t>>(table, DType::int32, DType::uint32);
  add_width<int64_t, uint64_t, Whole<uint64_t>>(table, DType::int64, DType::uint64);
}

}  // namespace rondo::kernels::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();
#endif

#if HWY_ONCE
namespace rondo::kernels {
namespace {
using AddFn = void (*)(Table&);
constexpr AddFn kAddInteger[kIsaCount] = {HWY_CHOOSE_SSE4(add_integer), HWY_CHOOSE_AVX2(add_integer),
                                          HWY_CHOOSE_AVX3(add_integer)};
}  // namespace

bool add_integer_rows(Isa isa, Table& table) {
  const AddFn add = kAddInteger[static_cast<size_t>(isa)];
  if (add != nullptr) add(table);
  return add != nullptr;
}

}  // namespace rondo::kernels
#endif
