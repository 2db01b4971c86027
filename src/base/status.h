// Status and Result: how every fallible function inside Rondo reports failure.
// A Status is a code (the values of rondo_status in rondo.h) and one line of text that names the cause with its
// numbers, made where the cause is known. Ok costs one pointer test and no allocation. Any thread may hold one.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <variant>

#include <fmt/core.h>

#include "base/check.h"

namespace rondo {

// The numeric values are those of rondo_status; src/capi checks that with static_assert.
enum class Code : int32_t {
  ok = 0,
  in_progress = 1,
  invalid = -1,
  unsupported = -2,
  no_memory = -3,
  system = -4,
  peer = -5,
  timeout = -6,
  aborted = -7,
  mismatch = -8,
  auth = -9,
  internal = -10,
};

class [[nodiscard]] Status {
 public:
  Status() = default;
  Status(Code code, std::string text)
      : detail_(std::make_shared<const Detail>(Detail{code, std::move(text)})) {}

  bool ok() const { return detail_ == nullptr; }
  Code code() const { return detail_ ? detail_->code : Code::ok; }
  const std::string& text() const {
    static const std::string empty;
    return detail_ ? detail_->text : empty;
  }

 private:
  struct Detail {
    Code code;
    std::string text;
  };
  std::shared_ptr<const Detail> detail_;  // shared: a sticky cause is handed to every operation it ends
};

// Builds a failed Status with a formatted text: fail(Code::peer, "rank {} exited without destroy", rank).
template <class... Args>
Status fail(Code code, fmt::format_string<Args...> format, Args&&... args) {
  return Status(code, fmt::format(format, std::forward<Args>(args)...));
}

// Code::system with the cause of `error` (an errno value) appended: "tcp: bind 127.0.0.1:80: Permission denied (errno 13)".
Status system_error(int error, std::string what);

template <class T>
class [[nodiscard]] Result {
 public:
  Result(T value) : value_(std::move(value)) {}                                       // NOLINT: implicit by design
  Result(Status status) : value_(std::move(status)) { RONDO_CHECK(!this->status().ok()); }  // NOLINT

  bool ok() const { return std::holds_alternative<T>(value_); }
  Status status() const { return ok() ? Status() : std::get<Status>(value_); }
  T& value() & {
    RONDO_CHECK(ok());
    return std::get<T>(value_);
  }
  const T& value() const& {
    RONDO_CHECK(ok());
    return std::get<T>(value_);
  }
  T&& value() && {
    RONDO_CHECK(ok());
    return std::get<T>(std::move(value_));
  }
  T* operator->() { return &value(); }
  T& operator*() & { return value(); }

 private:
  std::variant<T, Status> value_;
};

}  // namespace rondo

// Returns from the calling function when `expr` (a Status) is a failure. The only control-flow macro.
#define RONDO_TRY(expr)                                  \
  do {                                                   \
    if (::rondo::Status rondo_try_ = (expr); !rondo_try_.ok()) return rondo_try_; \
  } while (false)
