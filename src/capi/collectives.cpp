// The collectives and point-to-point calls of rondo.h: checks of the C arguments, no logic.
#include "capi/requests.h"

using namespace rondo;        // NOLINT: the C face speaks the internal vocabulary
using namespace rondo::capi;  // NOLINT

namespace {

// Hands a started operation to the caller, or, for a blocking call, its verdict.
Status deliver(rondo_comm* comm, OperationRef operation, rondo_op** op) {
  if (op == nullptr) return operation->deferred ? Status() : operation->status();
  *op = new rondo_op{std::move(operation), comm->communicator->fabric().weak_from_this(), nullptr};
  return {};
}

rondo_status start(rondo_comm* comm, const Request& untyped, Types types, rondo_op** op) {
  if (op != nullptr) *op = nullptr;
  return guard(comm, [&]() -> Status {
    RONDO_TRY(need(comm));
    const auto checked = typed(untyped, types);
    if (!checked.ok()) return checked.status();
    const Request& request = checked.value();
    if (op == nullptr) {
      Status verdict;
      const bool repeated = !request.vector_form && comm->communicator->repeat({.collective = request.collective,
                                                                                .in = request.input,
                                                                                .out = request.output,
                                                                                .count = request.count,
                                                                                .dtype = types.dtype,
                                                                                .op = types.redop,
                                                                                .root = request.root},
                                                                               &verdict);
      return repeated ? verdict : comm->communicator->run(request);
    }
    auto started = comm->communicator->collective(request, Block::no);
    if (!started.ok()) return started.status();
    return deliver(comm, std::move(started).value(), op);
  });
}

rondo_status move(rondo_comm* comm, Communicator::Transfer transfer, rondo_dtype type, rondo_op** op) {
  if (op != nullptr) *op = nullptr;
  return guard(comm, [&]() -> Status {
    RONDO_TRY(need(comm));
    const auto dtype = dtype_of(type);
    if (!dtype.ok()) return dtype.status();
    transfer.dtype = dtype.value();
    auto started = comm->communicator->transfer(transfer, op == nullptr ? Block::yes : Block::no);
    if (!started.ok()) return started.status();
    return deliver(comm, std::move(started).value(), op);
  });
}

}  // namespace

rondo_status rondo_allreduce(rondo_comm* comm, const void* in, void* out, size_t count, rondo_dtype dtype,
                             rondo_redop redop, rondo_op** op) {
  const Request request = whole(Collective::allreduce, in, out, count);
  if (op != nullptr || comm == nullptr) return start(comm, request, {dtype, redop}, op);
  bool handled = false;
  const rondo_status status = guard(comm, [&] {
    Status verdict;
    handled = comm->communicator->repeat(
        {.collective = Collective::allreduce, .in = in, .out = out, .count = count, .dtype = dtype, .op = redop},
        &verdict);
    return verdict;
  });
  return handled || status != RONDO_OK ? status : start(comm, request, {dtype, redop}, nullptr);
}

rondo_status rondo_reduce(rondo_comm* comm, const void* in, void* out, size_t count, rondo_dtype dtype,
                          rondo_redop redop, int32_t root, rondo_op** op) {
  return start(comm, whole(Collective::reduce, in, out, count, root), {dtype, redop}, op);
}

rondo_status rondo_broadcast(rondo_comm* comm, void* buf, size_t count, rondo_dtype dtype, int32_t root,
                             rondo_op** op) {
  return start(comm, whole(Collective::broadcast, buf, buf, count, root), {dtype}, op);
}

rondo_status rondo_allgather(rondo_comm* comm, const void* in, void* out, size_t count_per_rank, rondo_dtype dtype,
                             rondo_op** op) {
  return start(comm, whole(Collective::allgather, in, out, count_per_rank), {dtype}, op);
}

rondo_status rondo_allgatherv(rondo_comm* comm, const void* in, size_t in_count, void* out, const size_t* counts,
                              const size_t* displs, rondo_dtype dtype, rondo_op** op) {
  return start(comm, allgatherv_request(in, in_count, out, counts, displs), {dtype}, op);
}

rondo_status rondo_reduce_scatter(rondo_comm* comm, const void* in, void* out, size_t out_count, rondo_dtype dtype,
                                  rondo_redop redop, rondo_op** op) {
  return start(comm, whole(Collective::reduce_scatter, in, out, out_count), {dtype, redop}, op);
}

rondo_status rondo_reduce_scatterv(rondo_comm* comm, const void* in, void* out, const size_t* counts, rondo_dtype dtype,
                                   rondo_redop redop, rondo_op** op) {
  return start(comm, reduce_scatterv_request(in, out, counts), {dtype, redop}, op);
}

rondo_status rondo_alltoall(rondo_comm* comm, const void* in, void* out, size_t count_per_pair, rondo_dtype dtype,
                            rondo_op** op) {
  return start(comm, whole(Collective::alltoall, in, out, count_per_pair), {dtype}, op);
}

rondo_status rondo_alltoallv(rondo_comm* comm, const void* in, const size_t* in_counts, const size_t* in_displs,
                             void* out, const size_t* out_counts, const size_t* out_displs, rondo_dtype dtype,
                             rondo_op** op) {
  return start(comm, alltoallv_request(in, in_counts, in_displs, out, out_counts, out_displs), {dtype}, op);
}

rondo_status rondo_gather(rondo_comm* comm, const void* in, void* out, size_t count, rondo_dtype dtype, int32_t root,
                          rondo_op** op) {
  return start(comm, whole(Collective::gather, in, out, count, root), {dtype}, op);
}

rondo_status rondo_scatter(rondo_comm* comm, const void* in, void* out, size_t count, rondo_dtype dtype, int32_t root,
                           rondo_op** op) {
  return start(comm, whole(Collective::scatter, in, out, count, root), {dtype}, op);
}

rondo_status rondo_barrier(rondo_comm* comm, rondo_op** op) {
  return start(comm, {.collective = Collective::barrier}, {}, op);
}

rondo_status rondo_send(rondo_comm* comm, const void* buf, size_t count, rondo_dtype dtype, int32_t peer,
                        rondo_op** op) {
  return rondo_send_tag(comm, buf, count, dtype, peer, 0, op);
}

rondo_status rondo_recv(rondo_comm* comm, void* buf, size_t count, rondo_dtype dtype, int32_t peer, rondo_op** op) {
  return rondo_recv_tag(comm, buf, count, dtype, peer, 0, op);
}

rondo_status rondo_send_tag(rondo_comm* comm, const void* buf, size_t count, rondo_dtype dtype, int32_t peer,
                            int64_t tag, rondo_op** op) {
  return move(comm,
              {.kind = OperationKind::send, .data = const_cast<void*>(buf), .count = count, .peer = peer, .tag = tag},
              dtype, op);
}

rondo_status rondo_recv_tag(rondo_comm* comm, void* buf, size_t count, rondo_dtype dtype, int32_t peer, int64_t tag,
                            rondo_op** op) {
  return move(comm, {.kind = OperationKind::recv, .data = buf, .count = count, .peer = peer, .tag = tag}, dtype, op);
}

rondo_status rondo_group_begin(rondo_comm* comm) {
  return guard(comm, [&]() -> Status {
    RONDO_TRY(need(comm));
    return comm->communicator->group_begin();
  });
}

rondo_status rondo_group_end(rondo_comm* comm) {
  return guard(comm, [&]() -> Status {
    RONDO_TRY(need(comm));
    return comm->communicator->group_end();
  });
}
