// Vector kernels of max and min for the integers.
#define HWY_DISABLED_TARGETS (HWY_SSSE3 | HWY_AVX3_DL | RONDO_DISABLED_ISAS)
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/simd_order.cpp"
#include "hwy/foreach_target.h"
//
#include "kernels/simd-inl.h"

#if HWY_TARGET == HWY_SSE4 || HWY_TARGET == HWY_AVX2 || HWY_TARGET == HWY_AVX3
HWY_BEFORE_NAMESPACE();
namespace rondo::kernels::HWY_NAMESPACE {
namespace {

template <class T>
void add_rows(Table& table, DType dtype) {
  ReduceFn* row = table.reduce[static_cast<size_t>(dtype)];
  row[static_cast<size_t>(RedOp::max)] = reduce<Whole<T>, Max, sizeof(T)>;
  row[static_cast<size_t>(RedOp::min)] = reduce<Whole<T>, Min, sizeof(T)>;
}

}  // namespace

void add_order(Table& table) {
  add_rows<int8_t>(table, DType::int8);
  add_rows<uint8_t>(table, DType::uint8);
  add_rows<int16_t>(table, DType::int16);
  add_rows<uint16_t>(table, DType::uint16);
  add_rows<int32_t>(table, DType::int32);
  add_rows<uint32_t>(table, DType::uint32);
  add_rows<int64_t>(table, DType::int64);
  add_rows<uint64_t>(table, DType::uint64);
}

}  // namespace rondo::kernels::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();
#endif

#if HWY_ONCE
namespace rondo::kernels {
namespace {
using AddFn = void (*)(Table&);
constexpr AddFn kAddOrder[kIsaCount] = {HWY_CHOOSE_SSE4(add_order), HWY_CHOOSE_AVX2(add_order),
                                        HWY_CHOOSE_AVX3(add_order)};
}  // namespace

bool add_order_rows(Isa isa, Table& table) {
  const AddFn add = kAddOrder[static_cast<size_t>(isa)];
  if (add != nullptr) add(table);
  return add != nullptr;
}

}  // namespace rondo::kernels
#endif
