// The owner of one reference to an Operation. A value; const use from any thread.
#pragma once

#include <utility>

#include "exec/operation.h"

namespace rondo {

class OperationRef {
 public:
  OperationRef() = default;
  explicit OperationRef(Operation* adopted) : operation_(adopted) {}
  OperationRef(OperationRef&& other) noexcept : operation_(std::exchange(other.operation_, nullptr)) {}
  OperationRef& operator=(OperationRef&& other) noexcept {
    std::swap(operation_, other.operation_);
    return *this;
  }
  ~OperationRef() {
    if (operation_ != nullptr) operation_->unref();
  }
  Operation* get() const { return operation_; }
  Operation* operator->() const { return operation_; }
  Operation* release() { return std::exchange(operation_, nullptr); }

 private:
  Operation* operation_ = nullptr;
};

}  // namespace rondo
