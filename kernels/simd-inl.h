// The engine of the vector kernels, compiled once per instruction set: element formats, operators, and the one-pass
// n-ary reduction over them. Included only by the simd_*.cpp files through Highway's foreach_target.h. Pure functions;
// any thread.
//
// A *format* turns one unit of memory, a vector of bytes (Memory), into what is computed with (Acc, a vector or a
// pair) and back: unpacked, scaled, packed. An *operator* combines two Acc. Memory is addressed in bytes and may be
// aligned to nothing.
//
// One pass over memory for any number of sources: up to 8 are combined in registers with the tree unrolled; beyond
// that, quads are folded like the carries of a binary counter, which gives the same tree with 30 partial results at
// most. What is left after the last whole unit, and before the first aligned one, is loaded and stored with masks, or
// through a zeroed buffer on the stack where there are none, so that no byte outside the arrays is touched.
#if defined(RONDO_KERNELS_SIMD_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef RONDO_KERNELS_SIMD_INL_H_
#undef RONDO_KERNELS_SIMD_INL_H_
#else
#define RONDO_KERNELS_SIMD_INL_H_
#endif

#include "hwy/cache_control.h"
#include "hwy/highway.h"
#include "kernels/float_formats.h"
#include "kernels/tables.h"

#if HWY_TARGET == HWY_SSE4 || HWY_TARGET == HWY_AVX2 || HWY_TARGET == HWY_AVX3

HWY_BEFORE_NAMESPACE();
namespace rondo::kernels::HWY_NAMESPACE {
namespace {

namespace hn = hwy::HWY_NAMESPACE;

using Bytes = hn::ScalableTag<uint8_t>;
constexpr size_t kVectorBytes = hn::MaxLanes(Bytes());

// ---- memory

// Copies at most 64 bytes with overlapping pieces; `most` is what the caller knows of the number.
template <size_t most>
HWY_INLINE void copy_few(uint8_t* dst, const uint8_t* src, size_t bytes) {
  const hn::Full128<uint8_t> d;
  if (most >= 32 && bytes >= 32) {
    const auto a = hn::LoadU(d, src), b = hn::LoadU(d, src + 16);
    const auto y = hn::LoadU(d, src + bytes - 32), z = hn::LoadU(d, src + bytes - 16);
    hn::StoreU(a, d, dst);
    hn::StoreU(b, d, dst + 16);
    hn::StoreU(y, d, dst + bytes - 32);
    hn::StoreU(z, d, dst + bytes - 16);
  } else if (most >= 16 && bytes >= 16) {
    const auto a = hn::LoadU(d, src), z = hn::LoadU(d, src + bytes - 16);
    hn::StoreU(a, d, dst);
    hn::StoreU(z, d, dst + bytes - 16);
  } else if (most >= 8 && bytes >= 8) {
    uint64_t a, z;
    __builtin_memcpy(&a, src, 8);
    __builtin_memcpy(&z, src + bytes - 8, 8);
    __builtin_memcpy(dst, &a, 8);
    __builtin_memcpy(dst + bytes - 8, &z, 8);
  } else if (bytes >= 4) {
    uint32_t a, z;
    __builtin_memcpy(&a, src, 4);
    __builtin_memcpy(&z, src + bytes - 4, 4);
    __builtin_memcpy(dst, &a, 4);
    __builtin_memcpy(dst + bytes - 4, &z, 4);
  } else if (bytes > 0) {
    const uint8_t a = src[0], m = src[bytes / 2], z = src[bytes - 1];
    dst[0] = a;
    dst[bytes / 2] = m;
    dst[bytes - 1] = z;
  }
}

// A vector's first `bytes` bytes, the others zero, touching no other memory.
template <class D>
HWY_INLINE hn::Vec<D> load_few_buffered(D d, const uint8_t* from, size_t bytes) {
  HWY_ALIGN_MAX uint8_t buffer[hn::MaxLanes(D())] = {};
  copy_few<hn::MaxLanes(D())>(buffer, from, bytes);
  return hn::Load(d, buffer);
}
template <class D>
HWY_INLINE void store_few_buffered(D d, hn::Vec<D> value, uint8_t* to, size_t bytes) {
  HWY_ALIGN_MAX uint8_t buffer[hn::MaxLanes(D())];
  hn::Store(value, d, buffer);
  copy_few<hn::MaxLanes(D())>(to, buffer, bytes);
}

// The same in the best way that the instruction set has: a small load right after the smaller stores that it covers
// waits for them to leave the store queue, so masks are several times faster. AVX2 has masks of 32-bit lanes only.
#if HWY_TARGET == HWY_AVX3
template <class D>
HWY_INLINE hn::Vec<D> load_few(D d, const uint8_t* from, size_t bytes) {
  return hn::MaskedLoad(hn::FirstN(d, bytes), d, from);
}
template <class D>
HWY_INLINE void store_few(D d, hn::Vec<D> value, uint8_t* to, size_t bytes) {
  hn::BlendedStore(value, hn::FirstN(d, bytes), d, to);
}
#elif HWY_TARGET == HWY_AVX2
template <class D>
HWY_INLINE hn::Vec<D> load_few(D d, const uint8_t* from, size_t bytes) {
  if (bytes % 4 != 0) return load_few_buffered(d, from, bytes);
  if constexpr (hn::MaxLanes(D()) < 16) {  // a mask for half a register leaves the other half's lanes undefined
    return hn::LowerHalf(d, load_few(hn::Full128<uint8_t>(), from, bytes));
  } else {
    const hn::Repartition<int32_t, D> words;
    const auto mask = hn::FirstN(words, bytes / 4);
    return hn::BitCast(d, hn::MaskedLoad(mask, words, reinterpret_cast<const int32_t*>(from)));
  }
}
template <class D>
HWY_INLINE void store_few(D d, hn::Vec<D> value, uint8_t* to, size_t bytes) {
  if (bytes % 4 != 0) return store_few_buffered(d, value, to, bytes);
  const hn::Repartition<int32_t, D> words;
  hn::BlendedStore(hn::BitCast(words, value), hn::FirstN(words, bytes / 4), words, reinterpret_cast<int32_t*>(to));
}
#else
template <class D>
HWY_INLINE hn::Vec<D> load_few(D d, const uint8_t* from, size_t bytes) {
  return load_few_buffered(d, from, bytes);
}
template <class D>
HWY_INLINE void store_few(D d, hn::Vec<D> value, uint8_t* to, size_t bytes) {
  store_few_buffered(d, value, to, bytes);
}
#endif

// Tells the compiler that memory has changed, so that it cannot recognise a copy loop and call libc's memcpy for it.
HWY_INLINE void keep_loop() { asm volatile("" ::: "memory"); }

struct Cached {
  template <class V>
  static HWY_INLINE void store(V value, uint8_t* to) {
    hn::StoreU(value, Bytes(), to);
  }
};
struct Streaming {  // `to` must be aligned to a vector
  template <class V>
  static HWY_INLINE void store(V value, uint8_t* to) {
    hn::Stream(value, Bytes(), to);
  }
};

// Copies whole vectors, four at a time, from `offset` on; returns where it stopped, less than a vector before `bytes`.
template <class First, class Second>
HWY_INLINE size_t copy_vectors(uint8_t* dst, uint8_t* dst2, const uint8_t* src, size_t offset, size_t bytes) {
  const Bytes d;
  for (; offset + 4 * kVectorBytes <= bytes; offset += 4 * kVectorBytes) {
    const auto a = hn::LoadU(d, src + offset), b = hn::LoadU(d, src + offset + kVectorBytes);
    const auto c = hn::LoadU(d, src + offset + 2 * kVectorBytes), e = hn::LoadU(d, src + offset + 3 * kVectorBytes);
    First::store(a, dst + offset);
    First::store(b, dst + offset + kVectorBytes);
    First::store(c, dst + offset + 2 * kVectorBytes);
    First::store(e, dst + offset + 3 * kVectorBytes);
    if (dst2 != nullptr) {
      Second::store(a, dst2 + offset);
      Second::store(b, dst2 + offset + kVectorBytes);
      Second::store(c, dst2 + offset + 2 * kVectorBytes);
      Second::store(e, dst2 + offset + 3 * kVectorBytes);
    }
    keep_loop();
  }
  for (; offset + kVectorBytes <= bytes; offset += kVectorBytes) {
    const auto a = hn::LoadU(d, src + offset);
    First::store(a, dst + offset);
    if (dst2 != nullptr) Second::store(a, dst2 + offset);
    keep_loop();
  }
  return offset;
}

HWY_INLINE size_t bytes_to_alignment(const void* address, size_t alignment) {
  return (alignment - (reinterpret_cast<uintptr_t>(address) & (alignment - 1))) & (alignment - 1);
}

// The first and the last vector may overlap what lies between them, which then starts at an aligned address of dst.
HWY_MAYBE_UNUSED HWY_NOINLINE void copy(void* dst_any, void* dst2_any, const void* src_any, size_t bytes) {
  uint8_t* dst = static_cast<uint8_t*>(dst_any);
  uint8_t* dst2 = static_cast<uint8_t*>(dst2_any);
  const uint8_t* src = static_cast<const uint8_t*>(src_any);
  const Bytes d;
  if (bytes < kVectorBytes || bytes <= 32) {
    copy_few<64>(dst, src, bytes);
    if (dst2 != nullptr) copy_few<64>(dst2, src, bytes);
    return;
  }
  const auto first = hn::LoadU(d, src), last = hn::LoadU(d, src + bytes - kVectorBytes);
  hn::StoreU(first, d, dst);
  if (dst2 != nullptr) hn::StoreU(first, d, dst2);
  const size_t head = bytes_to_alignment(dst, kVectorBytes);
  copy_vectors<Cached, Cached>(dst, dst2, src, head == 0 ? kVectorBytes : head, bytes);
  hn::StoreU(last, d, dst + bytes - kVectorBytes);
  if (dst2 != nullptr) hn::StoreU(last, d, dst2 + bytes - kVectorBytes);
}

HWY_MAYBE_UNUSED HWY_NOINLINE void copy_stream(void* dst_any, void* dst2_any, const void* src_any, size_t bytes) {
  uint8_t* dst = static_cast<uint8_t*>(dst_any);
  uint8_t* dst2 = static_cast<uint8_t*>(dst2_any);
  const uint8_t* src = static_cast<const uint8_t*>(src_any);
  if (bytes < 16 * kVectorBytes) return copy(dst, dst2, src, bytes);
  const size_t head = bytes_to_alignment(dst, kVectorBytes);
  copy(dst, dst2, src, head);
  const bool both = dst2 == nullptr || bytes_to_alignment(dst2, kVectorBytes) == head;
  const size_t end = both ? copy_vectors<Streaming, Streaming>(dst, dst2, src, head, bytes)
                          : copy_vectors<Streaming, Cached>(dst, dst2, src, head, bytes);
  copy(dst + end, dst2 == nullptr ? nullptr : dst2 + end, src + end, bytes - end);
  hwy::FlushStream();
}

// ---- formats

template <class V>
struct Pair {
  V low, high;
};

template <class D>
HWY_INLINE hn::Vec<D> without_nan(D d, hn::Vec<D> value) {
  if constexpr (hwy::IsFloat<hn::TFromD<D>>()) {
    const hn::RebindToUnsigned<D> du;
    constexpr bool kDouble = sizeof(hn::TFromD<D>) == 8;
    constexpr auto kNan = static_cast<hn::TFromD<hn::RebindToUnsigned<D>>>(kDouble ? kDoubleNan : kFloatNan);
    return hn::IfThenElse(hn::IsNaN(value), hn::BitCast(d, hn::Set(du, kNan)), value);
  } else {
    return value;
  }
}

// An element type that is computed with as it is.
template <class T>
struct Whole {
  using D = hn::ScalableTag<T>;
  using Acc = hn::Vec<D>;
  using Factor = T;
  using Memory = Bytes;
  static constexpr size_t kElement = sizeof(T);
  static HWY_INLINE Acc unpacked(hn::Vec<Bytes> memory) { return hn::BitCast(D(), memory); }
  static HWY_INLINE Acc scaled(Acc value, T factor) { return hn::Mul(value, hn::Set(D(), factor)); }
  static HWY_INLINE hn::Vec<Bytes> packed(Acc value) { return hn::BitCast(Bytes(), without_nan(D(), value)); }
};

template <class F>
constexpr size_t kUnitBytes = hn::MaxLanes(typename F::Memory());

template <class F>
HWY_INLINE typename F::Acc load(const uint8_t* from) {
  return F::unpacked(hn::LoadU(typename F::Memory(), from));
}

template <class F>
HWY_INLINE void store(hn::Vec<typename F::Memory> value, uint8_t* to) {
  hn::StoreU(value, typename F::Memory(), to);
}

// ---- operators

struct Sum {
  template <class V>
  static HWY_INLINE V apply(V a, V b) {
    return hn::Add(a, b);
  }
};

struct Prod {
  template <class V>
  static HWY_INLINE V apply(V a, V b) {
    using D = hn::DFromV<V>;
    if constexpr (sizeof(hn::TFromD<D>) == 8 && !hwy::IsFloat<hn::TFromD<D>>()) {
      const D d;
      const hn::Repartition<uint32_t, D> d32;
      const auto a32 = hn::BitCast(d32, a), b32 = hn::BitCast(d32, b);
      const auto a_high = hn::BitCast(d32, hn::ShiftRight<32>(a)), b_high = hn::BitCast(d32, hn::ShiftRight<32>(b));
      const auto cross = hn::Add(hn::MulEven(a_high, b32), hn::MulEven(a32, b_high));
      return hn::Add(hn::MulEven(a32, b32), hn::BitCast(d, hn::ShiftLeft<32>(cross)));
    } else {
      return hn::Mul(a, b);
    }
  }
};

// What x86 does with max and min: an operand is returned whenever they compare equal or unordered, and it is the
// second. So both orders agree unless there is a NaN, and of two zeros one order gives each.
template <class V>
HWY_INLINE V ordered(V one, V other, V merged) {
  const hn::DFromV<V> d;
  const hn::RebindToUnsigned<decltype(d)> du;
  constexpr bool kDouble = sizeof(hn::TFromD<decltype(d)>) == 8;
  constexpr auto kNan = static_cast<hn::TFromD<decltype(du)>>(kDouble ? kDoubleNan : kFloatNan);
  return hn::IfThenElse(hn::Eq(one, other), merged, hn::BitCast(d, hn::Set(du, kNan)));
}

struct Max {
  template <class V>
  static HWY_INLINE V apply(V a, V b) {
    if constexpr (hwy::IsFloat<hn::TFromV<V>>()) {
      const V one = hn::Max(a, b), other = hn::Max(b, a);
      return ordered(one, other, hn::And(one, other));
    } else {
      return hn::Max(a, b);
    }
  }
};

struct Min {
  template <class V>
  static HWY_INLINE V apply(V a, V b) {
    if constexpr (hwy::IsFloat<hn::TFromV<V>>()) {
      const V one = hn::Min(a, b), other = hn::Min(b, a);
      return ordered(one, other, hn::Or(one, other));
    } else {
      return hn::Min(a, b);
    }
  }
};

struct BitAnd {
  template <class V>
  static HWY_INLINE V apply(V a, V b) {
    return hn::And(a, b);
  }
};
struct BitOr {
  template <class V>
  static HWY_INLINE V apply(V a, V b) {
    return hn::Or(a, b);
  }
};
struct BitXor {
  template <class V>
  static HWY_INLINE V apply(V a, V b) {
    return hn::Xor(a, b);
  }
};

template <class Op, class V>
HWY_INLINE V combine(V a, V b) {
  return Op::apply(a, b);
}
template <class Op, class V>
HWY_INLINE Pair<V> combine(Pair<V> a, Pair<V> b) {
  return {Op::apply(a.low, b.low), Op::apply(a.high, b.high)};
}

// ---- the reduction

// Every piece of a reduction works on bytes [begin, end) of each array; args.count plays no part any more.
HWY_INLINE const uint8_t* const* sources_of(const ReduceArgs& args) {
  return reinterpret_cast<const uint8_t* const*>(args.sources);
}

constexpr size_t pairs_before(size_t count) { return count <= 2 ? 1 : 2 * pairs_before((count + 1) / 2); }

// The canonical tree over `count` sources at one place, unrolled: split before the largest power of two below count.
template <class F, class Op, size_t count>
HWY_INLINE typename F::Acc tree(const uint8_t* const* at, size_t offset) {
  if constexpr (count == 1) {
    return load<F>(at[0] + offset);
  } else {
    constexpr size_t kLeft = pairs_before(count);
    return combine<Op>(tree<F, Op, kLeft>(at, offset), tree<F, Op, count - kLeft>(at + kLeft, offset));
  }
}

template <class F, bool scale>
HWY_INLINE hn::Vec<typename F::Memory> finished(typename F::Acc value, typename F::Factor factor) {
  if constexpr (scale) {
    return F::packed(F::scaled(value, factor));
  } else {
    return F::packed(value);
  }
}

// Partial results of a binary counter: adding the quad number i merges as many as i has trailing ones.
constexpr size_t kLevelsMax = 33;

template <class F, class Op>
struct Counter {
  typename F::Acc levels[kLevelsMax];
  uint32_t depth = 0;

  HWY_INLINE void add(typename F::Acc value, uint32_t number) {
    for (; (number & 1) != 0; number >>= 1) value = combine<Op>(levels[--depth], value);
    levels[depth++] = value;
  }
  HWY_INLINE typename F::Acc total() {
    typename F::Acc value = levels[--depth];
    while (depth > 0) value = combine<Op>(levels[--depth], value);
    return value;
  }
};

// The counter's part of reduce_part, kept apart so that two sources do not pay for its stack.
template <class F, class Op>
HWY_NOINLINE typename F::Acc count_part(const ReduceArgs& args, size_t begin, size_t bytes) {
  const uint8_t* const* at = sources_of(args);
  Counter<F, Op> counter;
  for (uint32_t i = 0; i < args.source_count; ++i) {
    counter.add(F::unpacked(load_few(typename F::Memory(), at[i] + begin, bytes)), i);
  }
  return counter.total();
}

// One unit or less of it, for any number of sources.
template <class F, class Op, bool scale>
HWY_NOINLINE void reduce_part(const ReduceArgs& args, size_t begin, size_t bytes, typename F::Factor factor) {
  const typename F::Memory d;
  const uint8_t* const* at = sources_of(args);
  typename F::Acc value;
  if (args.source_count == 1) {
    value = F::unpacked(load_few(d, at[0] + begin, bytes));
  } else if (args.source_count == 2) {
    value = combine<Op>(F::unpacked(load_few(d, at[0] + begin, bytes)), F::unpacked(load_few(d, at[1] + begin, bytes)));
  } else {
    value = count_part<F, Op>(args, begin, bytes);
  }
  const auto result = finished<F, scale>(value, factor);
  store_few(d, result, static_cast<uint8_t*>(args.dst) + begin, bytes);
  if (args.dst2 != nullptr) store_few(d, result, static_cast<uint8_t*>(args.dst2) + begin, bytes);
}

// Whole units with the tree in registers; returns where it stopped, less than a unit before the end.
template <class F, class Op, bool scale, size_t count>
HWY_NOINLINE size_t reduce_units(const ReduceArgs& args, size_t offset, size_t end, typename F::Factor factor) {
  constexpr size_t kUnroll = count <= 3 ? 4 : 2;
  const uint8_t* at[count];
  for (size_t i = 0; i < count; ++i) at[i] = sources_of(args)[i];
  uint8_t* const dst = static_cast<uint8_t*>(args.dst);
  uint8_t* const dst2 = static_cast<uint8_t*>(args.dst2);
  for (; offset + kUnroll * kUnitBytes<F> <= end; offset += kUnroll * kUnitBytes<F>) {
    hn::Vec<typename F::Memory> results[kUnroll];
    HWY_UNROLL(4)
    for (size_t u = 0; u < kUnroll; ++u) {
      results[u] = finished<F, scale>(tree<F, Op, count>(at, offset + u * kUnitBytes<F>), factor);
    }
    HWY_UNROLL(4)
    for (size_t u = 0; u < kUnroll; ++u) store<F>(results[u], dst + offset + u * kUnitBytes<F>);
    if (dst2 == nullptr) continue;
    HWY_UNROLL(4)
    for (size_t u = 0; u < kUnroll; ++u) store<F>(results[u], dst2 + offset + u * kUnitBytes<F>);
  }
  for (; offset + kUnitBytes<F> <= end; offset += kUnitBytes<F>) {
    const auto result = finished<F, scale>(tree<F, Op, count>(at, offset), factor);
    store<F>(result, dst + offset);
    if (dst2 != nullptr) store<F>(result, dst2 + offset);
  }
  return offset;
}

// Whole units of more than 8 sources.
template <class F, class Op, bool scale>
HWY_NOINLINE size_t reduce_many(const ReduceArgs& args, size_t offset, size_t end, typename F::Factor factor) {
  const uint8_t* const* at = sources_of(args);
  uint8_t* const dst = static_cast<uint8_t*>(args.dst);
  uint8_t* const dst2 = static_cast<uint8_t*>(args.dst2);
  const uint32_t quads = args.source_count / 4;
  const uint8_t* const* rest = at + size_t{4} * quads;
  for (; offset + 2 * kUnitBytes<F> <= end; offset += 2 * kUnitBytes<F>) {
    const size_t next = offset + kUnitBytes<F>;
    Counter<F, Op> first, second;
    for (uint32_t i = 0; i < quads; ++i) {
      first.add(tree<F, Op, 4>(at + size_t{4} * i, offset), i);
      second.add(tree<F, Op, 4>(at + size_t{4} * i, next), i);
    }
    switch (args.source_count % 4) {
      case 1:
        first.levels[first.depth++] = tree<F, Op, 1>(rest, offset);
        second.levels[second.depth++] = tree<F, Op, 1>(rest, next);
        break;
      case 2:
        first.levels[first.depth++] = tree<F, Op, 2>(rest, offset);
        second.levels[second.depth++] = tree<F, Op, 2>(rest, next);
        break;
      case 3:
        first.levels[first.depth++] = tree<F, Op, 3>(rest, offset);
        second.levels[second.depth++] = tree<F, Op, 3>(rest, next);
        break;
      default:
        break;
    }
    const auto one = finished<F, scale>(first.total(), factor), two = finished<F, scale>(second.total(), factor);
    store<F>(one, dst + offset);
    store<F>(two, dst + next);
    if (dst2 == nullptr) continue;
    store<F>(one, dst2 + offset);
    store<F>(two, dst2 + next);
  }
  return offset;
}

template <class F, class Op, bool scale>
HWY_INLINE size_t reduce_whole(const ReduceArgs& args, size_t begin, size_t end, typename F::Factor factor) {
  switch (args.source_count) {
    case 1:
      // Only a scaled copy comes here; the others have nothing to compute.
      if constexpr (scale) return reduce_units<F, Op, scale, 1>(args, begin, end, factor);
      return begin;
    case 2:
      return reduce_units<F, Op, scale, 2>(args, begin, end, factor);
    case 3:
      return reduce_units<F, Op, scale, 3>(args, begin, end, factor);
    case 4:
      return reduce_units<F, Op, scale, 4>(args, begin, end, factor);
    case 5:
      return reduce_units<F, Op, scale, 5>(args, begin, end, factor);
    case 6:
      return reduce_units<F, Op, scale, 6>(args, begin, end, factor);
    case 7:
      return reduce_units<F, Op, scale, 7>(args, begin, end, factor);
    case 8:
      return reduce_units<F, Op, scale, 8>(args, begin, end, factor);
    default:
      return reduce_many<F, Op, scale>(args, begin, end, factor);
  }
}

// Below this many bytes aligning the stores costs more than it saves.
constexpr size_t kAlignFromBytes = 2048;

template <class F, class Op, bool scale>
HWY_NOINLINE void reduce_range(const ReduceArgs& args, size_t begin, size_t end, typename F::Factor factor) {
  constexpr size_t kUnit = kUnitBytes<F>;
  const size_t head = bytes_to_alignment(static_cast<uint8_t*>(args.dst) + begin, kUnit);
  if (head != 0 && head % F::kElement == 0 && end - begin >= kAlignFromBytes) {
    reduce_part<F, Op, scale>(args, begin, head, factor);
    begin += head;
  }
  if (end - begin >= kUnit) begin = reduce_whole<F, Op, scale>(args, begin, end, factor);
  while (begin < end) {
    const size_t bytes = end - begin < kUnit ? end - begin : kUnit;
    reduce_part<F, Op, scale>(args, begin, bytes, factor);
    begin += bytes;
  }
}

// ---- table entries

template <class F, class Op, size_t element_bytes>
void reduce(const ReduceArgs& args) {
  if (args.source_count == 1) return copy(args.dst, args.dst2, args.sources[0], args.count * element_bytes);
  reduce_range<F, Op, false>(args, 0, args.count * element_bytes, typename F::Factor{});
}

// Floating averages. Dividing by one is no scale at all.
template <class F, size_t element_bytes>
void average(const ReduceArgs& args) {
  if (args.divisor <= 1) return reduce<F, Sum, element_bytes>(args);
  const typename F::Factor factor = reciprocal(typename F::Factor{}, args.divisor);
  reduce_range<F, Sum, true>(args, 0, args.count * element_bytes, factor);
}

template <class F, size_t element_bytes>
void scale(void* dst, const void* src, size_t count, double factor) {
  const ReduceArgs args{.sources = &src, .source_count = 1, .dst = dst, .dst2 = nullptr, .count = count, .divisor = 0};
  reduce_range<F, Sum, true>(args, 0, count * element_bytes, static_cast<typename F::Factor>(factor));
}

}  // namespace
}  // namespace rondo::kernels::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif  // a target that is built
#endif  // per-target include guard
