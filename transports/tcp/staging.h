// Staging: buffers for messages that arrived before anybody offered memory for them; lent to the receiver, then used
// again. Sizes are powers of two; a buffer once made is kept. Progress-lease holder only.
#pragma once

#include <array>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <memory>
#include <vector>

#include "base/check.h"

namespace rondo::tcp {

class Staging {
 public:
  struct Buffer {
    std::byte* data = nullptr;  // null: no memory
    size_t bytes = 0;
    uint64_t handle = 0;  // never 0 for a buffer
  };

  Buffer take(size_t bytes) {
    const size_t size = std::bit_ceil(bytes < kLeast ? kLeast : bytes);
    std::vector<uint32_t>& idle = idle_[static_cast<size_t>(std::countr_zero(size))];
    if (idle.empty() && !add(size)) return {};
    const uint32_t index = idle.back();
    idle.pop_back();
    blocks_[index].taken = true;
    return {blocks_[index].memory.get(), size, index + uint64_t{1}};
  }

  // Returns the size of the buffer given back.
  size_t give(uint64_t handle) {
    RONDO_CHECK(handle >= 1 && handle <= blocks_.size() && blocks_[handle - 1].taken);
    Block& block = blocks_[handle - 1];
    block.taken = false;
    idle_[static_cast<size_t>(std::countr_zero(block.bytes))].push_back(static_cast<uint32_t>(handle - 1));
    return block.bytes;
  }

 private:
  static constexpr size_t kLeast = 256;
  static constexpr size_t kAlign = 128;

  struct Free {
    void operator()(std::byte* memory) const { std::free(memory); }
  };
  struct Block {
    std::unique_ptr<std::byte[], Free> memory;
    size_t bytes = 0;
    bool taken = false;
  };

  bool add(size_t size) {
    std::unique_ptr<std::byte[], Free> memory(static_cast<std::byte*>(std::aligned_alloc(kAlign, size)));
    if (!memory) return false;
    blocks_.push_back({std::move(memory), size, false});
    std::vector<uint32_t>& idle = idle_[static_cast<size_t>(std::countr_zero(size))];
    idle.reserve(blocks_.size());
    idle.push_back(static_cast<uint32_t>(blocks_.size() - 1));
    return true;
  }

  std::vector<Block> blocks_;
  std::array<std::vector<uint32_t>, 64> idle_;  // by the logarithm of the size
};

}  // namespace rondo::tcp
