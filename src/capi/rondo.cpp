// The rest of rondo.h: making and leaving communicators, operations, memory, failure, words.
#include <cstring>

#include "capi/face.h"
#include "capi/settings.h"

using namespace rondo;        // NOLINT: the C face speaks the internal vocabulary
using namespace rondo::capi;  // NOLINT

rondo_status rondo_init(const rondo_options* options, rondo_comm** comm) {
  return guard(nullptr, [&]() -> Status {
    if (comm == nullptr) return fail(Code::invalid, "init: comm is NULL");
    *comm = nullptr;
    auto settings = settings_of(options);
    if (!settings.ok()) return settings.status();
    auto fabric = Fabric::create(std::move(settings->fabric));
    if (!fabric.ok()) return fabric.status();
    auto communicator = Communicator::create(std::move(fabric).value(), std::move(settings->communicator));
    if (!communicator.ok()) return communicator.status();
    *comm = new rondo_comm{std::move(communicator).value()};
    return {};
  });
}

rondo_status rondo_split(rondo_comm* comm, int32_t color, int32_t key, rondo_comm** out) {
  if (out != nullptr) *out = nullptr;
  return guard(comm, [&]() -> Status {
    RONDO_TRY(need(comm));
    if (out == nullptr) return fail(Code::invalid, "split: out is NULL");
    auto part = comm->communicator->split(color, key);
    if (!part.ok()) return part.status();
    if (part.value() != nullptr) *out = new rondo_comm{std::move(part).value()};
    return {};
  });
}

rondo_status rondo_destroy(rondo_comm* comm) {
  if (comm == nullptr) return RONDO_OK;
  forget(comm);
  return guard(nullptr, [&]() -> Status {
    delete comm;
    return {};
  });
}

int32_t rondo_rank(const rondo_comm* comm) {
  return comm == nullptr ? -1 : static_cast<int32_t>(comm->communicator->rank());
}
int32_t rondo_world(const rondo_comm* comm) {
  return comm == nullptr ? -1 : static_cast<int32_t>(comm->communicator->world());
}
int32_t rondo_local_rank(const rondo_comm* comm) {
  return comm == nullptr ? -1 : static_cast<int32_t>(comm->communicator->local_rank());
}
int32_t rondo_local_world(const rondo_comm* comm) {
  return comm == nullptr ? -1 : static_cast<int32_t>(comm->communicator->local_world());
}

rondo_status rondo_op_test(rondo_op* op) { return rondo_op_wait(op, 0); }

rondo_status rondo_op_wait(rondo_op* op, int64_t timeout_ns) {
  if (op == nullptr) return report(nullptr, fail(Code::invalid, "op is NULL"));
  return guard(nullptr, [&]() -> Status {
    Operation& operation = *op->operation.get();
    if (!operation.ended()) {
      if (const auto fabric = op->fabric.lock()) {
        if (fabric->forked())
          return fail(Code::unsupported, "this process is a fork of the one that started the operation");
        fabric->wait(operation, timeout_ns);
      }
    }
    if (!operation.ended()) return Status(Code::in_progress, "the operation has not completed");
    return operation.status();
  });
}

rondo_status rondo_op_free(rondo_op* op) {
  delete op;
  return RONDO_OK;
}

rondo_status rondo_alloc(rondo_comm* comm, size_t bytes, void** ptr) {
  if (ptr != nullptr) *ptr = nullptr;
  return guard(comm, [&]() -> Status {
    RONDO_TRY(need(comm));
    if (ptr == nullptr) return fail(Code::invalid, "alloc: ptr is NULL");
    if (bytes == 0) return {};
    auto memory = comm->communicator->fabric().alloc(bytes);
    if (!memory.ok()) return memory.status();
    *ptr = memory.value();
    return {};
  });
}

rondo_status rondo_free(rondo_comm* comm, void* ptr) {
  return guard(comm, [&]() -> Status {
    RONDO_TRY(need(comm));
    return ptr == nullptr ? Status() : comm->communicator->fabric().free(ptr);
  });
}

rondo_status rondo_abort(rondo_comm* comm, const char* why) {
  return guard(comm, [&]() -> Status {
    RONDO_TRY(need(comm));
    return comm->communicator->abort(why == nullptr ? "" : why);
  });
}

rondo_status rondo_revoke(rondo_comm* comm) { return rondo_abort(comm, nullptr); }

rondo_status rondo_health(const rondo_comm* comm) {
  if (comm == nullptr) return RONDO_ERR_INVALID;
  return static_cast<rondo_status>(comm->communicator->health());
}

size_t rondo_error_text(const rondo_comm* comm, char* text, size_t capacity) {
  try {
    if (const std::string* kept = last_failure(comm)) return copy_text(*kept, text, capacity);
    return copy_text(comm == nullptr ? std::string() : comm->communicator->cause().text(), text, capacity);
  } catch (...) {
    return copy_text("out of memory", text, capacity);
  }
}

size_t rondo_explain(const rondo_comm* comm, const char* collective, size_t bytes, rondo_dtype type, char* text,
                     size_t capacity) {
  try {
    const auto named = collective == nullptr ? std::nullopt : collective_named(collective);
    const auto dtype = dtype_of(type);
    if (comm == nullptr) return copy_text("comm is NULL", text, capacity);
    if (!named) return copy_text("unknown collective", text, capacity);
    if (!dtype.ok()) return copy_text(dtype.status().text(), text, capacity);
    const auto words = comm->communicator->explain(*named, bytes, dtype.value());
    return copy_text(words.ok() ? words.value() : words.status().text(), text, capacity);
  } catch (...) {
    return copy_text("out of memory", text, capacity);
  }
}

const char* rondo_status_name(rondo_status status) {
  switch (status) {
    case RONDO_OK:
      return "OK";
    case RONDO_IN_PROGRESS:
      return "IN_PROGRESS";
    case RONDO_ERR_INVALID:
      return "INVALID";
    case RONDO_ERR_UNSUPPORTED:
      return "UNSUPPORTED";
    case RONDO_ERR_NO_MEMORY:
      return "NO_MEMORY";
    case RONDO_ERR_SYSTEM:
      return "SYSTEM";
    case RONDO_ERR_PEER:
      return "PEER";
    case RONDO_ERR_TIMEOUT:
      return "TIMEOUT";
    case RONDO_ERR_ABORTED:
      return "ABORTED";
    case RONDO_ERR_MISMATCH:
      return "MISMATCH";
    case RONDO_ERR_AUTH:
      return "AUTH";
    case RONDO_ERR_INTERNAL:
      return "INTERNAL";
  }
  return "unknown";
}

const char* rondo_dtype_name(rondo_dtype dtype) {
  const auto known = dtype_of(dtype);
  return known.ok() ? name(known.value()).data() : "unknown";
}

const char* rondo_redop_name(rondo_redop redop) {
  const auto known = redop_of(redop);
  return known.ok() ? name(known.value()).data() : "unknown";
}

size_t rondo_dtype_size(rondo_dtype dtype) {
  const auto known = dtype_of(dtype);
  return known.ok() ? size_of(known.value()) : 0;
}

uint32_t rondo_version(void) { return RONDO_VERSION; }
