// Statuses and texts at the C face: every entry point runs inside guard(), which maps a Status to a rondo_status, keeps
// the text for rondo_error_text and lets no exception escape.
#pragma once

#include <new>
#include <string>
#include <string_view>

#include "base/status.h"
#include "capi/handles.h"

namespace rondo::capi {

// Keeps `status` as the calling thread's last failure on `comm` (null: of init) and returns its code.
rondo_status report(const rondo_comm* comm, const Status& status);
// The kept text, or null when this thread's last failure was on another communicator.
const std::string* last_failure(const rondo_comm* comm);
void forget(const rondo_comm* comm);

template <class Body>
rondo_status guard(const rondo_comm* comm, Body&& body) {
  try {
    const Status status = body();
    return status.ok() ? RONDO_OK : report(comm, status);
  } catch (const std::bad_alloc&) {
    return report(comm, Status(Code::no_memory, "out of memory"));
  } catch (const std::exception& error) {
    return report(comm, Status(Code::internal, error.what()));
  }
}

Status need(const rondo_comm* comm);
Result<DType> dtype_of(rondo_dtype dtype);
Result<RedOp> redop_of(rondo_redop redop);
size_t copy_text(std::string_view from, char* text, size_t capacity);

}  // namespace rondo::capi
