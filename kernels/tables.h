// How the parts of kernels/ put the tables together; nobody outside this folder includes it. Any thread.
#pragma once

#include "kernels/kernels.h"

namespace rondo::kernels {

enum class Isa : uint8_t { sse4 = 0, avx2 = 1, avx512 = 2 };
inline constexpr uint32_t kIsaCount = 3;

// Every row and both copies.
void add_reference_rows(Table& table);

// Each overwrites its share of the rows with functions for `isa`. False when this build has none for it; the CPU is not
// asked, that is the caller's part.
bool add_float_rows(Isa isa, Table& table);    // float32, float64
bool add_narrow_rows(Isa isa, Table& table);   // float16, bfloat16, float8
bool add_integer_rows(Isa isa, Table& table);  // sum, prod and the bit operations of all integers, avg
bool add_order_rows(Isa isa, Table& table);    // max and min of integers
bool add_copies(Isa isa, Table& table);

// The multiplier of a floating average: one rounding of 1/divisor in the type that the average is computed in.
constexpr float reciprocal(float /* type */, uint32_t divisor) { return 1.0f / static_cast<float>(divisor); }
constexpr double reciprocal(double /* type */, uint32_t divisor) { return 1.0 / static_cast<double>(divisor); }

}  // namespace rondo::kernels
