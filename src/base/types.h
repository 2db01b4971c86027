// The small vocabulary every layer shares: ranks, element types, reduction operators, collectives.
// Values only; numeric values of DType and RedOp are those of rondo.h and never change.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string_view>

namespace rondo {

using Rank = uint32_t;

enum class DType : uint8_t {
  int8 = 0,
  uint8 = 1,
  int32 = 2,
  uint32 = 3,
  int64 = 4,
  uint64 = 5,
  float16 = 6,
  float32 = 7,
  float64 = 8,
  bfloat16 = 9,
  float8_e4m3 = 10,
  float8_e5m2 = 11,
  int16 = 12,
  uint16 = 13,
};
inline constexpr uint32_t kDTypeCount = 14;

enum class RedOp : uint8_t { sum = 0, prod = 1, max = 2, min = 3, avg = 4, band = 5, bor = 6, bxor = 7 };
inline constexpr uint32_t kRedOpCount = 8;

enum class Collective : uint8_t {
  allreduce = 0,
  reduce = 1,
  broadcast = 2,
  allgather = 3,
  reduce_scatter = 4,
  alltoall = 5,
  gather = 6,
  scatter = 7,
  barrier = 8,
};
inline constexpr uint32_t kCollectiveCount = 9;

struct DTypeInfo {
  std::string_view name;
  uint8_t size;  // bytes
  bool floating;
  bool is_signed;
};

// Names are those that rondo_dtype_name prints and rondo-perf -d takes.
inline constexpr std::array<DTypeInfo, kDTypeCount> kDTypes = {{
    {"int8", 1, false, true},
    {"uint8", 1, false, false},
    {"int32", 4, false, true},
    {"uint32", 4, false, false},
    {"int64", 8, false, true},
    {"uint64", 8, false, false},
    {"float16", 2, true, true},
    {"float32", 4, true, true},
    {"float64", 8, true, true},
    {"bfloat16", 2, true, true},
    {"float8_e4m3", 1, true, true},
    {"float8_e5m2", 1, true, true},
    {"int16", 2, false, true},
    {"uint16", 2, false, false},
}};
inline constexpr std::array<std::string_view, kRedOpCount> kRedOpNames = {"sum", "prod", "max", "min",
                                                                          "avg", "band", "bor", "bxor"};
inline constexpr std::array<std::string_view, kCollectiveCount> kCollectiveNames = {
    "allreduce", "reduce", "broadcast", "allgather", "reduce_scatter", "alltoall", "gather", "scatter", "barrier"};

constexpr const DTypeInfo& info(DType dtype) { return kDTypes[static_cast<size_t>(dtype)]; }
constexpr size_t size_of(DType dtype) { return info(dtype).size; }
constexpr std::string_view name(DType dtype) { return info(dtype).name; }
constexpr std::string_view name(RedOp op) { return kRedOpNames[static_cast<size_t>(op)]; }
constexpr std::string_view name(Collective collective) { return kCollectiveNames[static_cast<size_t>(collective)]; }

constexpr bool is_bitwise(RedOp op) { return op >= RedOp::band; }
// Every pair is defined except bit operations on floating types.
constexpr bool is_defined(DType dtype, RedOp op) { return !(info(dtype).floating && is_bitwise(op)); }
constexpr bool reduces(Collective c) {
  return c == Collective::allreduce || c == Collective::reduce || c == Collective::reduce_scatter;
}
constexpr bool rooted(Collective c) {
  return c == Collective::reduce || c == Collective::broadcast || c == Collective::gather || c == Collective::scatter;
}

std::optional<DType> dtype_named(std::string_view name);
std::optional<RedOp> redop_named(std::string_view name);
std::optional<Collective> collective_named(std::string_view name);

}  // namespace rondo
