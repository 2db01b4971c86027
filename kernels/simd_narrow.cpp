// Vector kernels of the formats narrower than fp32: widened on load, computed in fp32, rounded once on store.
#define HWY_DISABLED_TARGETS (HWY_SSSE3 | HWY_AVX3_DL | RONDO_DISABLED_ISAS)
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/simd_narrow.cpp"
#include "hwy/foreach_target.h"
//
#include "kernels/simd-inl.h"

#if HWY_TARGET == HWY_SSE4 || HWY_TARGET == HWY_AVX2 || HWY_TARGET == HWY_AVX3
HWY_BEFORE_NAMESPACE();
namespace rondo::kernels::HWY_NAMESPACE {
namespace {

using Floats = hn::ScalableTag<float>;
using Words = hn::RebindToUnsigned<Floats>;
using Signed = hn::RebindToSigned<Floats>;
using VF = hn::Vec<Floats>;
using VI = hn::Vec<Signed>;

// bf16: a vector of them is the high halves of two vectors of fp32, the even and the odd elements. No lane crosses.
struct BFloat16Pairs {
  using Acc = Pair<VF>;
  using Factor = float;
  using Memory = Bytes;
  static constexpr size_t kElement = 2;

  static HWY_INLINE Acc unpacked(hn::Vec<Bytes> memory) {
    const auto both = hn::BitCast(Words(), memory);
    const auto odd = hn::And(both, hn::Set(Words(), 0xffff0000u));
    return {hn::BitCast(Floats(), hn::ShiftLeft<16>(both)), hn::BitCast(Floats(), odd)};
  }
  static HWY_INLINE Acc scaled(Acc value, float factor) {
    const VF by = hn::Set(Floats(), factor);
    return {hn::Mul(value.low, by), hn::Mul(value.high, by)};
  }
  // fp32 bits whose upper half is the rounded bf16; the lower half is left over.
  static HWY_INLINE hn::Vec<Words> rounded(VF value) {
    const auto bits = hn::BitCast(Words(), value);
    const auto tie = hn::And(hn::ShiftRight<16>(bits), hn::Set(Words(), 1));
    const auto up = hn::Add(hn::Add(bits, hn::Set(Words(), 0x7fff)), tie);
    return hn::BitCast(Words(), hn::IfThenElse(hn::IsNaN(value), hn::BitCast(Floats(), hn::Set(Words(), kFloatNan)),
                                               hn::BitCast(Floats(), up)));
  }
  static HWY_INLINE hn::Vec<Bytes> packed(Acc value) {
    const auto even = hn::ShiftRight<16>(rounded(value.low));
    const auto odd = hn::And(rounded(value.high), hn::Set(Words(), 0xffff0000u));
    return hn::BitCast(Bytes(), hn::Or(even, odd));
  }
};

// The vectors that hold as many narrow elements as a vector of fp32 holds lanes, and their bytes.
using Half = hn::Rebind<hwy::float16_t, Floats>;
using HalfWords = hn::Rebind<uint16_t, Floats>;

// Any of the formats of float_formats.h by integer arithmetic. Subnormals are converted as integers: multiplying a
// subnormal fp32 into place would cost an assist of more than a hundred cycles.
template <class Format>
struct Converted {
  using Acc = VF;
  using Factor = float;
  using Bits = typename Format::Bits;
  using Elements = hn::Rebind<Bits, Floats>;
  using Memory = hn::Repartition<uint8_t, Elements>;
  static constexpr size_t kElement = sizeof(Bits);
  static constexpr int kDropped = static_cast<int>(Format::kDropped);
  static constexpr int kSignShift = 32 - 8 * static_cast<int>(sizeof(Bits));
  static constexpr int32_t kSmallestNormal = 1 << Format::kMantissaBits;  // in the narrow format
  static constexpr int32_t kRebias = (127 - Format::kBias) << 23;
  static constexpr uint32_t kUnitExponent =
      127 + 1 - Format::kBias - Format::kMantissaBits;  // of the last subnormal bit

  static HWY_INLINE Acc unpacked(hn::Vec<Memory> memory) {
    const Signed d;
    const VI bits = hn::PromoteTo(d, hn::BitCast(Elements(), memory));
    const VI magnitude = hn::And(bits, hn::Set(d, static_cast<int32_t>(Format::kMagnitude)));
    const VI sign = hn::ShiftLeft<kSignShift>(hn::AndNot(hn::Set(d, static_cast<int32_t>(Format::kMagnitude)), bits));
    const VI shifted = hn::ShiftLeft<kDropped>(magnitude);
    const VI normal = hn::Add(shifted, hn::Set(d, kRebias));
    const VF unit = hn::BitCast(Floats(), hn::Set(d, static_cast<int32_t>(kUnitExponent << 23)));
    const VI subnormal = hn::BitCast(d, hn::Mul(hn::ConvertTo(Floats(), magnitude), unit));
    VI value = hn::IfThenElse(hn::Lt(magnitude, hn::Set(d, kSmallestNormal)), subnormal, normal);
    if constexpr (Format::kHasInfinity) {
      const auto special = hn::Gt(magnitude, hn::Set(d, static_cast<int32_t>(Format::kLargest)));
      value = hn::Or(value, hn::IfThenElseZero(special, hn::Set(d, static_cast<int32_t>(kFloatInfinity))));
    } else {
      const auto nan = hn::Eq(magnitude, hn::Set(d, static_cast<int32_t>(Format::kNan)));
      value = hn::IfThenElse(nan, hn::Set(d, static_cast<int32_t>(kFloatNan)), value);
    }
    return hn::BitCast(Floats(), hn::Or(value, sign));
  }

  static HWY_INLINE Acc scaled(Acc value, float factor) { return hn::Mul(value, hn::Set(Floats(), factor)); }

  static HWY_INLINE hn::Vec<Memory> packed(Acc value) {
    const Signed d;
    const VI bits = hn::BitCast(d, value);
    const VI magnitude = hn::And(bits, hn::Set(d, 0x7fffffff));
    const VI tie = hn::And(hn::ShiftRight<kDropped>(magnitude), hn::Set(d, 1));
    const VI below_half = hn::Set(d, (1 << (kDropped - 1)) - 1 - kRebias);
    const VI normal = hn::ShiftRight<kDropped>(hn::Add(hn::Add(magnitude, below_half), tie));
    // Added to a number whose last bit is one unit of the subnormals, the value is rounded to such units.
    const VI anchor = hn::Set(d, static_cast<int32_t>((kUnitExponent + 23) << 23));
    const VF anchored = hn::Add(hn::BitCast(Floats(), magnitude), hn::BitCast(Floats(), anchor));
    const VI subnormal = hn::Sub(hn::BitCast(d, anchored), anchor);
    const auto is_small = hn::Lt(magnitude, hn::Set(d, kRebias + (1 << 23)));
    VI result = hn::IfThenElse(is_small, subnormal, normal);
    const VI sign_bit = hn::Set(d, static_cast<int32_t>(Format::kSign));
    const VI sign = hn::And(hn::ShiftRight<kSignShift>(bits), sign_bit);
    const VI largest = hn::Set(d, static_cast<int32_t>(Format::kLargest));
    const VI nan = hn::Set(d, static_cast<int32_t>(Format::kNan));
    if constexpr (Format::kHasInfinity) {
      result = hn::Or(hn::Min(result, hn::Set(d, static_cast<int32_t>(Format::kInfinity))), sign);
      result = hn::IfThenElse(hn::Gt(magnitude, hn::Set(d, static_cast<int32_t>(kFloatInfinity))), nan, result);
    } else {
      result = hn::IfThenElse(hn::Gt(result, largest), nan, hn::Or(result, sign));
    }
    return hn::BitCast(Memory(), hn::DemoteTo(Elements(), result));
  }
};

// fp16 with the CPU's own conversions, which are exact and round to nearest even whatever MXCSR says.
struct HardwareFloat16 {
  using Acc = VF;
  using Factor = float;
  using Memory = hn::Repartition<uint8_t, Half>;
  static constexpr size_t kElement = 2;
  static HWY_INLINE Acc unpacked(hn::Vec<Memory> memory) {
    return hn::PromoteTo(Floats(), hn::BitCast(Half(), memory));
  }
  static HWY_INLINE Acc scaled(Acc value, float factor) { return hn::Mul(value, hn::Set(Floats(), factor)); }
  static HWY_INLINE hn::Vec<Memory> packed(Acc value) {
    return hn::BitCast(Memory(), hn::DemoteTo(Half(), without_nan(Floats(), value)));
  }
};

// fp8 widened by way of fp16, which holds every fp8 number; rounding stays direct, for two roundings would not be one.

struct HardwareE5M2 : Converted<Float8E5M2> {  // the upper half of an fp16
  static HWY_INLINE Acc unpacked(hn::Vec<Memory> memory) {
    const auto wide = hn::PromoteTo(HalfWords(), memory);
    return hn::PromoteTo(Floats(), hn::BitCast(Half(), hn::ShiftLeft<8>(wide)));
  }
};

struct HardwareE4M3 : Converted<Float8E4M3> {  // one exponent bit less than fp16, whose bias is larger by 8
  static HWY_INLINE Acc unpacked(hn::Vec<Memory> memory) {
    const HalfWords d;
    const auto wide = hn::PromoteTo(d, memory);
    const auto magnitude = hn::ShiftLeft<7>(hn::And(wide, hn::Set(d, 0x7f)));
    const auto sign = hn::ShiftLeft<8>(hn::And(wide, hn::Set(d, 0x80)));
    const auto nan = hn::Eq(magnitude, hn::Set(d, 0x7f << 7));
    const auto bits = hn::Or(hn::Or(magnitude, sign), hn::IfThenElseZero(nan, hn::Set(d, 0x7e00)));
    return hn::Mul(hn::PromoteTo(Floats(), hn::BitCast(Half(), bits)), hn::Set(Floats(), 256.0f));
  }
};

#if HWY_TARGET == HWY_SSE4
using Float16Lanes = Converted<Float16>;
using E4M3Lanes = Converted<Float8E4M3>;
using E5M2Lanes = Converted<Float8E5M2>;
#else
using Float16Lanes = HardwareFloat16;
using E4M3Lanes = HardwareE4M3;
using E5M2Lanes = HardwareE5M2;
#endif

template <class F>
void add_rows(Table& table, DType dtype) {
  ReduceFn* row = table.reduce[static_cast<size_t>(dtype)];
  row[static_cast<size_t>(RedOp::sum)] = reduce<F, Sum, F::kElement>;
  row[static_cast<size_t>(RedOp::prod)] = reduce<F, Prod, F::kElement>;
  row[static_cast<size_t>(RedOp::max)] = reduce<F, Max, F::kElement>;
  row[static_cast<size_t>(RedOp::min)] = reduce<F, Min, F::kElement>;
  row[static_cast<size_t>(RedOp::avg)] = average<F, F::kElement>;
  table.scale[static_cast<size_t>(dtype)] = scale<F, F::kElement>;
}

}  // namespace

void add_narrow(Table& table) {
  add_rows<BFloat16Pairs>(table, DType::bfloat16);
  add_rows<Float16Lanes>(table, DType::float16);
  add_rows<E4M3Lanes>(table, DType::float8_e4m3);
  add_rows<E5M2Lanes>(table, DType::float8_e5m2);
}

}  // namespace rondo::kernels::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();
#endif

#if HWY_ONCE
namespace rondo::kernels {
namespace {
using AddFn = void (*)(Table&);
constexpr AddFn kAddNarrow[kIsaCount] = {HWY_CHOOSE_SSE4(add_narrow), HWY_CHOOSE_AVX2(add_narrow),
                                         HWY_CHOOSE_AVX3(add_narrow)};
}  // namespace

bool add_narrow_rows(Isa isa, Table& table) {
  const AddFn add = kAddNarrow[static_cast<size_t>(isa)];
  if (add != nullptr) add(table);
  return add != nullptr;
}

}  // namespace rondo::kernels
#endif
