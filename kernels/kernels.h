// Reduction and copy kernels on host memory: one table of function pointers, chosen once for the CPU that runs.
// Used by the executor and the shared-memory intrinsics. Pure functions of their arguments; any thread.
//
// Numerics (the same in every table, and in the reference, bit for bit):
//  - n sources are combined in the canonical binary tree over list order: pairs (0,1) (2,3) ..., level by level, an odd
//    one carried up unchanged. With n = 1 it is a copy (scaled if `divisor` asks for it).
//  - fp16, bf16 and fp8 widen to fp32, the whole tree and the scale run in fp32, one rounding (nearest even) at the
//  end.
//    fp16, bf16 and E5M2 overflow to infinity, E4M3 to NaN. fp32 and fp64 work in their own precision.
//  - integers wrap modulo 2^bits (computed unsigned); integer avg divides after the wrap, truncating towards zero.
//  - floating avg multiplies by 1/divisor (in fp32, fp64 for fp64) before the one rounding.
//  - NaN propagates through sum, prod, min, max and avg and is the canonical quiet NaN (positive sign, only the top
//    mantissa bit set; E4M3: 0x7f). min and max order -0 < +0. A copy (n = 1, no scale) never changes bits.
//  - No FMA contraction.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string_view>
#include <vector>

#include "base/types.h"

namespace rondo::kernels {

struct ReduceArgs {
  const void* const*
      sources;            // `source_count` arrays of `count` elements; each may equal dst exactly, no other overlap
  uint32_t source_count;  // at least 1
  void* dst;
  void* dst2;        // a second copy of the result, or null; never overlaps anything else
  size_t count;      // elements
  uint32_t divisor;  // RedOp::avg: 0 and 1 only sum (an intermediate hop), p divides by p; other ops ignore it
};

using ReduceFn = void (*)(const ReduceArgs&);
using CopyFn = void (*)(void* dst, void* dst2 /* or null */, const void* src, size_t bytes);
// dst[i] = src[i] * factor, the factor rounded once to the type that is computed in; dst may be src exactly.
using ScaleFn = void (*)(void* dst, const void* src, size_t count, double factor);

struct Table {
  std::string_view isa;                       // "reference", "sse4", "avx2", "avx512", ...
  ReduceFn reduce[kDTypeCount][kRedOpCount];  // null exactly where is_defined() is false
  CopyFn copy;                 // vector loads and stores; never libc memcpy (slow on lines that another core holds)
  ScaleFn scale[kDTypeCount];  // null for integers
  CopyFn copy_stream;  // non-temporal stores, fenced before it returns; for destinations beyond the last-level cache
};

const Table& reference();            // plain loops, the oracle
const Table& best();                 // the fastest table for this CPU, chosen on first use
std::vector<const Table*> usable();  // every table this CPU can run, the reference first

}  // namespace rondo::kernels
