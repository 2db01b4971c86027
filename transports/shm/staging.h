// Staging: private memory of one endpoint for messages that no longer stand in the sender's memory: small payloads,
// copied out of their descriptor at once, and evacuated slots. Both kinds are recycled. Lease holder only.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <memory>
#include <vector>

namespace rondo::shm {

class Staging {
 public:
  Staging(size_t small_bytes, size_t large_bytes) : small_(small_bytes), large_(large_bytes) {}

  // Memory for up to small_bytes; never fails in practice (a page at a time).
  std::byte* small(uint32_t* index) { return small_.take(index); }
  void free_small(uint32_t index) { small_.give(index); }
  // Memory for up to large_bytes, or null when the system has none.
  std::byte* large(uint32_t* index) { return large_.take(index); }
  void free_large(uint32_t index) { large_.give(index); }

 private:
  struct Free {
    void operator()(std::byte* memory) const { std::free(memory); }
  };
  using Block = std::unique_ptr<std::byte, Free>;

  // Buffers of one size by index; a stack of free ones, so that the warmest is used next.
  class Shelf {
   public:
    explicit Shelf(size_t bytes)
        : stride_((bytes + kAlign - 1) / kAlign * kAlign), batch_(stride_ < kBatchBytes ? kBatchBytes / stride_ : 1) {}
    std::byte* take(uint32_t* index) {
      if (free_.empty() && !grow()) return nullptr;
      *index = free_.back();
      free_.pop_back();
      return blocks_[*index / batch_].get() + *index % batch_ * stride_;
    }
    void give(uint32_t index) { free_.push_back(index); }

   private:
    static constexpr size_t kAlign = 128;
    static constexpr size_t kBatchBytes = 8192;
    bool grow() {
      auto* memory = static_cast<std::byte*>(std::aligned_alloc(kAlign, stride_ * batch_));
      if (memory == nullptr) return false;
      const size_t first = blocks_.size() * batch_;
      blocks_.emplace_back(memory);
      free_.reserve(first + batch_);
      for (size_t i = batch_; i > 0; --i) free_.push_back(static_cast<uint32_t>(first + i - 1));
      return true;
    }
    size_t stride_, batch_;
    std::vector<Block> blocks_;
    std::vector<uint32_t> free_;
  };

  Shelf small_, large_;
};

}  // namespace rondo::shm
