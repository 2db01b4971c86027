// How the trainer reports failure: a kind, which decides the exit code, and one line of text. The trainer stands on
// rondo.h alone, so it has this small pair of its own instead of the runtime's. Values; any thread may hold one.
#pragma once

#include <optional>
#include <string>
#include <utility>
#include <variant>

namespace rondo::train {

enum class Fault {
  invalid,  // an option or an argument
  dataset,  // missing, truncated or foreign data files
  comm,     // a Rondo call failed; the text carries its status name and rondo_error_text
  numeric,  // the loss is not finite, or ranks disagree about the weights
};

class [[nodiscard]] Status {
 public:
  Status() = default;
  Status(Fault fault, std::string text) : failure_(Failure{fault, std::move(text)}) {}

  bool ok() const { return !failure_.has_value(); }
  Fault fault() const { return failure_ ? failure_->fault : Fault::invalid; }
  std::string text() const { return failure_ ? failure_->text : std::string(); }

 private:
  struct Failure {
    Fault fault;
    std::string text;
  };
  std::optional<Failure> failure_;
};

template <class T>
class [[nodiscard]] Result {
 public:
  Result(T value) : value_(std::move(value)) {}         // NOLINT: implicit by design
  Result(Status status) : value_(std::move(status)) {}  // NOLINT: implicit by design; never given an ok status

  bool ok() const { return std::holds_alternative<T>(value_); }
  Status status() const { return ok() ? Status() : std::get<Status>(value_); }
  T& value() & { return std::get<T>(value_); }
  const T& value() const& { return std::get<T>(value_); }
  T&& value() && { return std::get<T>(std::move(value_)); }
  T* operator->() { return &value(); }

 private:
  std::variant<T, Status> value_;
};

}  // namespace rondo::train

// Returns from the calling function when `expr` (a train::Status) is a failure.
#define RONDO_TRAIN_TRY(expr)                                                            \
  do {                                                                                   \
    if (::rondo::train::Status train_try_ = (expr); !train_try_.ok()) return train_try_; \
  } while (false)
