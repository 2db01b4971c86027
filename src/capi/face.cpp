#include "capi/face.h"

#include <algorithm>
#include <cstring>

namespace rondo::capi {

static_assert(static_cast<int>(Code::ok) == RONDO_OK && static_cast<int>(Code::in_progress) == RONDO_IN_PROGRESS);
static_assert(static_cast<int>(Code::invalid) == RONDO_ERR_INVALID);
static_assert(static_cast<int>(Code::unsupported) == RONDO_ERR_UNSUPPORTED);
static_assert(static_cast<int>(Code::no_memory) == RONDO_ERR_NO_MEMORY);
static_assert(static_cast<int>(Code::system) == RONDO_ERR_SYSTEM);
static_assert(static_cast<int>(Code::peer) == RONDO_ERR_PEER && static_cast<int>(Code::timeout) == RONDO_ERR_TIMEOUT);
static_assert(static_cast<int>(Code::aborted) == RONDO_ERR_ABORTED);
static_assert(static_cast<int>(Code::mismatch) == RONDO_ERR_MISMATCH && static_cast<int>(Code::auth) == RONDO_ERR_AUTH);
static_assert(static_cast<int>(Code::internal) == RONDO_ERR_INTERNAL);
static_assert(static_cast<int>(DType::uint16) == RONDO_UINT16 && static_cast<int>(DType::bfloat16) == RONDO_BFLOAT16);
static_assert(static_cast<int>(RedOp::bxor) == RONDO_BXOR && static_cast<int>(RedOp::avg) == RONDO_AVG);

namespace {

struct LastFailure {
  const rondo_comm* comm = nullptr;
  bool set = false;
  std::string text;
};

// The text belongs to the thread that failed: another thread's failure must not replace it.
LastFailure& last() {
  thread_local LastFailure failure;
  return failure;
}

}  // namespace

rondo_status report(const rondo_comm* comm, const Status& status) {
  last() = {comm, true, status.text()};
  return static_cast<rondo_status>(status.code());
}

const std::string* last_failure(const rondo_comm* comm) {
  const LastFailure& failure = last();
  return failure.set && failure.comm == comm ? &failure.text : nullptr;
}

void forget(const rondo_comm* comm) {
  if (last().comm == comm) last() = {};
}

Status need(const rondo_comm* comm) {
  if (comm == nullptr) return fail(Code::invalid, "comm is NULL");
  return {};
}

Result<DType> dtype_of(rondo_dtype dtype) {
  const int value = static_cast<int>(dtype);
  if (value < 0 || value >= static_cast<int>(kDTypeCount))
    return fail(Code::invalid, "dtype {} is unknown, expected 0 to {}", value, kDTypeCount - 1);
  return static_cast<DType>(value);
}

Result<RedOp> redop_of(rondo_redop redop) {
  const int value = static_cast<int>(redop);
  if (value < 0 || value >= static_cast<int>(kRedOpCount))
    return fail(Code::invalid, "redop {} is unknown, expected 0 to {}", value, kRedOpCount - 1);
  return static_cast<RedOp>(value);
}

size_t copy_text(std::string_view from, char* text, size_t capacity) {
  if (text != nullptr && capacity > 0) {
    const size_t bytes = std::min(from.size(), capacity - 1);
    std::memcpy(text, from.data(), bytes);
    text[bytes] = 0;
  }
  return from.size();
}

}  // namespace rondo::capi
