// Who copies and reduces in one kind of memory. The host device finishes at once; others (a GPU, the slow device of the
// tests) answer "pending" and report the token later. Progress-lease holder only.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "base/types.h"
#include "kernels/kernels.h"

namespace rondo {

class Device {
 public:
  using Token = uint64_t;
  virtual ~Device() = default;

  // Both return true when the work is done, false when it is pending: then progress() reports `token`. The source
  // pointers of `args` are read before the call returns; the memory they name is read until the work is done.
  virtual bool copy(std::byte* dst, std::byte* dst2, const std::byte* src, size_t bytes, Token token) = 0;
  virtual bool reduce(DType dtype, RedOp op, const kernels::ReduceArgs& args, Token token) = 0;
  virtual bool progress(std::vector<Token>& done) = 0;
  // dst[i] = src[i] * factor, done on return; dst may be src. Floating types only.
  virtual void scale(DType dtype, std::byte* dst, const std::byte* src, size_t count, double factor) = 0;
};

class HostDevice final : public Device {
 public:
  explicit HostDevice(const kernels::Table& table) : table_(table) {}

  bool copy(std::byte* dst, std::byte* dst2, const std::byte* src, size_t bytes, Token) override {
    table_.copy(dst, dst2, src, bytes);
    return true;
  }
  bool reduce(DType dtype, RedOp op, const kernels::ReduceArgs& args, Token) override {
    table_.reduce[static_cast<size_t>(dtype)][static_cast<size_t>(op)](args);
    return true;
  }
  bool progress(std::vector<Token>&) override { return false; }
  void scale(DType dtype, std::byte* dst, const std::byte* src, size_t count, double factor) override {
    table_.scale[static_cast<size_t>(dtype)](dst, src, count, factor);
  }

 private:
  const kernels::Table& table_;
};

}  // namespace rondo
