// Vector kernels of float32 and float64, and the two copies.
#define HWY_DISABLED_TARGETS (HWY_SSSE3 | HWY_AVX3_DL | RONDO_DISABLED_ISAS)
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/simd_float.cpp"
#include "hwy/foreach_target.h"
//
#include "kernels/simd-inl.h"

#if HWY_TARGET == HWY_SSE4 || HWY_TARGET == HWY_AVX2 || HWY_TARGET == HWY_AVX3
HWY_BEFORE_NAMESPACE();
namespace rondo::kernels::HWY_NAMESPACE {
namespace {

template <class T>
void add_rows(Table& table, DType dtype) {
  using F = Whole<T>;
  ReduceFn* row = table.reduce[static_cast<size_t>(dtype)];
  row[static_cast<size_t>(RedOp::sum)] = reduce<F, Sum, sizeof(T)>;
  row[static_cast<size_t>(RedOp::prod)] = reduce<F, Prod, sizeof(T)>;
  row[static_cast<size_t>(RedOp::max)] = reduce<F, Max, sizeof(T)>;
  row[static_cast<size_t>(RedOp::min)] = reduce<F, Min, sizeof(T)>;
  row[static_cast<size_t>(RedOp::avg)] = average<F, sizeof(T)>;
  table.scale[static_cast<size_t>(dtype)] = scale<F, sizeof(T)>;
}

}  // namespace

void add_float(Table& table) {
  add_rows<float>(table, DType::float32);
  add_rows<double>(table, DType::float64);
}

void add_copy(Table& table) {
  table.copy = copy;
  table.copy_stream = copy_stream;
}

}  // namespace rondo::kernels::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();
#endif

#if HWY_ONCE
namespace rondo::kernels {
namespace {
using AddFn = void (*)(Table&);
constexpr AddFn kAddFloat[kIsaCount] = {HWY_CHOOSE_SSE4(add_float), HWY_CHOOSE_AVX2(add_float),
                                        HWY_CHOOSE_AVX3(add_float)};
constexpr AddFn kAddCopy[kIsaCount] = {HWY_CHOOSE_SSE4(add_copy), HWY_CHOOSE_AVX2(add_copy), HWY_CHOOSE_AVX3(add_copy)};
}  // namespace

bool add_float_rows(Isa isa, Table& table) {
  const AddFn add = kAddFloat[static_cast<size_t>(isa)];
  if (add != nullptr) add(table);
  return add != nullptr;
}

bool add_copies(Isa isa, Table& table) {
  const AddFn add = kAddCopy[static_cast<size_t>(isa)];
  if (add != nullptr) add(table);
  return add != nullptr;
}

}  // namespace rondo::kernels
#endif
