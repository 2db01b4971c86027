#include "base/types.h"

namespace rondo {

std::optional<DType> dtype_named(std::string_view name) {
  for (uint32_t i = 0; i < kDTypeCount; ++i)
    if (kDTypes[i].name == name) return static_cast<DType>(i);
  return std::nullopt;
}

std::optional<RedOp> redop_named(std::string_view name) {
  for (uint32_t i = 0; i < kRedOpCount; ++i)
    if (kRedOpNames[i] == name) return static_cast<RedOp>(i);
  return std::nullopt;
}

std::optional<Collective> collective_named(std::string_view name) {
  for (uint32_t i = 0; i < kCollectiveCount; ++i)
    if (kCollectiveNames[i] == name) return static_cast<Collective>(i);
  return std::nullopt;
}

}  // namespace rondo
