// One collective on all ranks with checked results: buffers with guard bytes, values from a seeded generator, the
// expectation from the reference kernels.
#pragma once

#include "job.h"

namespace rondo::test {

struct Case {
  Collective collective = Collective::allreduce;
  const Algorithm* algorithm = nullptr;
  uint32_t world = 2;
  size_t count = 0;
  DType dtype = DType::int32;
  RedOp op = RedOp::sum;
  uint32_t root = 0;
  uint32_t lanes = 1;
  size_t piece = 1 << 20;
  uint32_t window = 2;
  size_t misalign = 0;  // bytes
  bool in_place = false;
  bool vector_form = false;
  uint64_t seed = 1;
};

// `elements` values between guards, `misalign` bytes off a 64-byte boundary.
class GuardedBuffer {
 public:
  GuardedBuffer(size_t bytes, size_t misalign)
      : bytes_(bytes), memory_(bytes + misalign + 3 * kGuard, std::byte{0x5a}) {
    const uintptr_t at = reinterpret_cast<uintptr_t>(memory_.data()) + kGuard;
    begin_ = memory_.data() + kGuard + (64 - at % 64) % 64 + misalign;
  }
  std::byte* data() { return begin_; }
  size_t bytes() const { return bytes_; }
  bool guards_hold() const {
    for (const std::byte* p = memory_.data(); p < memory_.data() + memory_.size(); ++p)
      if ((p < begin_ || p >= begin_ + bytes_) && *p != std::byte{0x5a}) return false;
    return true;
  }

 private:
  static constexpr size_t kGuard = 64;
  size_t bytes_;
  std::vector<std::byte> memory_;
  std::byte* begin_;
};

// Small whole numbers, which every type holds exactly; products and sums of few stay exact where the order varies.
inline void fill(std::byte* data, size_t count, DType dtype, RedOp op, uint64_t seed, Rank rank) {
  uint64_t state = seed * 1000003 + rank * 7919 + 1;
  const bool narrow = size_of(dtype) == 1 && info(dtype).floating && op != RedOp::prod;
  for (size_t i = 0; i < count; ++i) {
    state = state * 6364136223846793005u + 1442695040888963407u;
    const uint32_t random = static_cast<uint32_t>(state >> 40);
    double v = op == RedOp::prod ? random % 2 + (random % 64 < 8 ? 1 : 0) : random % 4;
    // E5M2 holds whole numbers up to 8 exactly.
    if (narrow) v = rank < 8 && v > 1 ? 1 : 0;
    std::byte* at = data + i * size_of(dtype);
    const auto put = [&](auto value) { std::memcpy(at, &value, sizeof value); };
    switch (dtype) {
      case DType::int8:
        put(static_cast<int8_t>(v));
        break;
      case DType::uint8:
        put(static_cast<uint8_t>(v));
        break;
      case DType::int16:
        put(static_cast<int16_t>(v));
        break;
      case DType::uint16:
        put(static_cast<uint16_t>(v));
        break;
      case DType::int32:
        put(static_cast<int32_t>(v));
        break;
      case DType::uint32:
        put(static_cast<uint32_t>(v));
        break;
      case DType::int64:
        put(static_cast<int64_t>(v));
        break;
      case DType::uint64:
        put(static_cast<uint64_t>(v));
        break;
      case DType::float32:
        put(static_cast<float>(v));
        break;
      case DType::float64:
        put(v);
        break;
      // 0, 1, 2, 3 in the narrow formats.
      case DType::float16:
        put(static_cast<uint16_t>(std::array<int, 4>{0, 0x3c00, 0x4000, 0x4200}[static_cast<int>(v)]));
        break;
      case DType::bfloat16:
        put(static_cast<uint16_t>(std::array<int, 4>{0, 0x3f80, 0x4000, 0x4040}[static_cast<int>(v)]));
        break;
      case DType::float8_e4m3:
        put(static_cast<uint8_t>(std::array<int, 4>{0, 0x38, 0x40, 0x44}[static_cast<int>(v)]));
        break;
      case DType::float8_e5m2:
        put(static_cast<uint8_t>(std::array<int, 4>{0, 0x3c, 0x40, 0x42}[static_cast<int>(v)]));
        break;
    }
  }
}

// Runs the case on `job` and checks every output byte; CHECKs, so that the caller's INFO names the case.
void run_case(Job& job, const Case& c);

}  // namespace rondo::test
