// The persistent operations of rondo.h: checks of the C arguments, no logic.
#include "capi/requests.h"
#include "capi/settings.h"

using namespace rondo;        // NOLINT: the C face speaks the internal vocabulary
using namespace rondo::capi;  // NOLINT

namespace {

rondo_status plan(rondo_comm* comm, const Request& untyped, Types types, const rondo_call_options* options,
                  rondo_op** op) {
  if (op != nullptr) *op = nullptr;
  return guard(comm, [&]() -> Status {
    RONDO_TRY(need(comm));
    if (op == nullptr) return fail(Code::invalid, "{}_init: op is NULL", name(untyped.collective));
    const auto request = typed(untyped, types);
    if (!request.ok()) return request.status();
    const auto own = call_options_of(options);
    if (!own.ok()) return own.status();
    auto call = comm->communicator->persistent(request.value(), own.value());
    if (!call.ok()) return call.status();
    Operation& operation = (*call)->operation();
    operation.ref();
    *op =
        new rondo_op{OperationRef(&operation), comm->communicator->fabric().weak_from_this(), std::move(call).value()};
    return {};
  });
}

}  // namespace

rondo_status rondo_allreduce_init(rondo_comm* comm, const void* in, void* out, size_t count, rondo_dtype dtype,
                                  rondo_redop redop, const rondo_call_options* options, rondo_op** op) {
  return plan(comm, whole(Collective::allreduce, in, out, count), {dtype, redop}, options, op);
}

rondo_status rondo_reduce_init(rondo_comm* comm, const void* in, void* out, size_t count, rondo_dtype dtype,
                               rondo_redop redop, int32_t root, const rondo_call_options* options, rondo_op** op) {
  return plan(comm, whole(Collective::reduce, in, out, count, root), {dtype, redop}, options, op);
}

rondo_status rondo_broadcast_init(rondo_comm* comm, void* buf, size_t count, rondo_dtype dtype, int32_t root,
                                  const rondo_call_options* options, rondo_op** op) {
  return plan(comm, whole(Collective::broadcast, buf, buf, count, root), {dtype}, options, op);
}

rondo_status rondo_allgather_init(rondo_comm* comm, const void* in, void* out, size_t count_per_rank, rondo_dtype dtype,
                                  const rondo_call_options* options, rondo_op** op) {
  return plan(comm, whole(Collective::allgather, in, out, count_per_rank), {dtype}, options, op);
}

rondo_status rondo_allgatherv_init(rondo_comm* comm, const void* in, size_t in_count, void* out, const size_t* counts,
                                   const size_t* displs, rondo_dtype dtype, const rondo_call_options* options,
                                   rondo_op** op) {
  return plan(comm, allgatherv_request(in, in_count, out, counts, displs), {dtype}, options, op);
}

rondo_status rondo_reduce_scatter_init(rondo_comm* comm, const void* in, void* out, size_t out_count, rondo_dtype dtype,
                                       rondo_redop redop, const rondo_call_options* options, rondo_op** op) {
  return plan(comm, whole(Collective::reduce_scatter, in, out, out_count), {dtype, redop}, options, op);
}

rondo_status rondo_reduce_scatterv_init(rondo_comm* comm, const void* in, void* out, const size_t* counts,
                                        rondo_dtype dtype, rondo_redop redop, const rondo_call_options* options,
                                        rondo_op** op) {
  return plan(comm, reduce_scatterv_request(in, out, counts), {dtype, redop}, options, op);
}

rondo_status rondo_alltoall_init(rondo_comm* comm, const void* in, void* out, size_t count_per_pair, rondo_dtype dtype,
                                 const rondo_call_options* options, rondo_op** op) {
  return plan(comm, whole(Collective::alltoall, in, out, count_per_pair), {dtype}, options, op);
}

rondo_status rondo_alltoallv_init(rondo_comm* comm, const void* in, const size_t* in_counts, const size_t* in_displs,
                                  void* out, const size_t* out_counts, const size_t* out_displs, rondo_dtype dtype,
                                  const rondo_call_options* options, rondo_op** op) {
  return plan(comm, alltoallv_request(in, in_counts, in_displs, out, out_counts, out_displs), {dtype}, options, op);
}

rondo_status rondo_gather_init(rondo_comm* comm, const void* in, void* out, size_t count, rondo_dtype dtype,
                               int32_t root, const rondo_call_options* options, rondo_op** op) {
  return plan(comm, whole(Collective::gather, in, out, count, root), {dtype}, options, op);
}

rondo_status rondo_scatter_init(rondo_comm* comm, const void* in, void* out, size_t count, rondo_dtype dtype,
                                int32_t root, const rondo_call_options* options, rondo_op** op) {
  return plan(comm, whole(Collective::scatter, in, out, count, root), {dtype}, options, op);
}

rondo_status rondo_barrier_init(rondo_comm* comm, const rondo_call_options* options, rondo_op** op) {
  return plan(comm, {.collective = Collective::barrier}, {}, options, op);
}

rondo_status rondo_start(rondo_op* op) {
  return guard(nullptr, [&]() -> Status {
    if (op == nullptr) return fail(Code::invalid, "start: op is NULL");
    if (op->persistent == nullptr)
      return fail(Code::invalid, "start: the operation is not persistent; rondo_<collective>_init makes those");
    return op->persistent->start();
  });
}
