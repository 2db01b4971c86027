#include "perf/collective.h"

#include <array>

namespace rondo::perf {
namespace {

// name, reduces, rooted, divided, out of place, in place. A broadcast has one buffer, so it is in place by nature.
constexpr std::array<KindInfo, kKindCount> kKinds = {{
    {Kind::allreduce, "allreduce", true, false, false, true, true},
    {Kind::reduce, "reduce", true, true, false, true, true},
    {Kind::broadcast, "broadcast", false, true, false, false, true},
    {Kind::allgather, "allgather", false, false, true, true, true},
    {Kind::reduce_scatter, "reduce_scatter", true, false, true, true, true},
    {Kind::alltoall, "alltoall", false, false, true, true, false},
    {Kind::gather, "gather", false, true, true, true, false},
    {Kind::scatter, "scatter", false, true, true, true, false},
    {Kind::barrier, "barrier", false, false, false, true, false},
    {Kind::sendrecv, "sendrecv", false, false, false, true, false},
}};

rondo_status exchange(rondo_comm* comm, const Call& call, const void* in, void* out) {
  const auto next = static_cast<int32_t>((call.rank + 1) % call.world);
  const auto previous = static_cast<int32_t>((call.rank + call.world - 1) % call.world);
  if (const rondo_status status = rondo_group_begin(comm); status != RONDO_OK) return status;
  const rondo_status sent = rondo_send(comm, in, call.count, call.dtype, next, nullptr);
  const rondo_status received = rondo_recv(comm, out, call.count, call.dtype, previous, nullptr);
  const rondo_status ended = rondo_group_end(comm);
  if (sent != RONDO_OK) return sent;
  return received != RONDO_OK ? received : ended;
}

}  // namespace

const KindInfo& info(Kind kind) { return kKinds[static_cast<size_t>(kind)]; }

const KindInfo* kind_named(std::string_view name) {
  for (const KindInfo& row : kKinds) {
    if (name == row.name) return &row;
  }
  return nullptr;
}

size_t in_elements(const Call& call) {
  const bool whole = call.kind == Kind::reduce_scatter || call.kind == Kind::alltoall || call.kind == Kind::scatter;
  return call.kind == Kind::barrier ? 0 : whole ? call.count * call.world : call.count;
}

size_t out_elements(const Call& call) {
  const bool whole = call.kind == Kind::allgather || call.kind == Kind::alltoall || call.kind == Kind::gather;
  return call.kind == Kind::barrier ? 0 : whole ? call.count * call.world : call.count;
}

size_t in_place_offset(const Call& call) {
  const bool offset = call.kind == Kind::allgather || call.kind == Kind::reduce_scatter;
  return offset ? call.count * call.rank : 0;
}

double bus_factor(Kind kind, uint32_t world) {
  const double others = static_cast<double>(world - 1) / world;
  if (kind == Kind::allreduce) return 2 * others;
  return info(kind).divided ? others : 1;
}

std::vector<Expectation> expectations(const Call& call) {
  const uint32_t reduced = Expectation::kReduced;
  const size_t count = call.count;
  const auto root = static_cast<uint32_t>(call.root);
  const size_t mine = count * call.rank;
  std::vector<Expectation> list;
  switch (call.kind) {
    case Kind::allreduce:
      return {{0, count, reduced, 0}};
    case Kind::reduce:
      if (call.rank == root) list.push_back({0, count, reduced, 0});
      return list;
    case Kind::reduce_scatter:
      return {{0, count, reduced, mine}};
    case Kind::broadcast:
      return {{0, count, root, 0}};
    case Kind::scatter:
      return {{0, count, root, mine}};
    case Kind::sendrecv:
      return {{0, count, (call.rank + call.world - 1) % call.world, 0}};
    case Kind::gather:
      if (call.rank != root) return list;
      [[fallthrough]];
    case Kind::allgather:
      for (uint32_t from = 0; from < call.world; ++from) list.push_back({count * from, count, from, 0});
      return list;
    case Kind::alltoall:
      for (uint32_t from = 0; from < call.world; ++from) list.push_back({count * from, count, from, mine});
      return list;
    case Kind::barrier:
      return list;
  }
  return list;
}

rondo_status run(rondo_comm* comm, const Call& call, const void* in, void* out) {
  switch (call.kind) {
    case Kind::allreduce:
      return rondo_allreduce(comm, in, out, call.count, call.dtype, call.redop, nullptr);
    case Kind::reduce:
      return rondo_reduce(comm, in, out, call.count, call.dtype, call.redop, call.root, nullptr);
    case Kind::broadcast:
      return rondo_broadcast(comm, out, call.count, call.dtype, call.root, nullptr);
    case Kind::allgather:
      return rondo_allgather(comm, in, out, call.count, call.dtype, nullptr);
    case Kind::reduce_scatter:
      return rondo_reduce_scatter(comm, in, out, call.count, call.dtype, call.redop, nullptr);
    case Kind::alltoall:
      return rondo_alltoall(comm, in, out, call.count, call.dtype, nullptr);
    case Kind::gather:
      return rondo_gather(comm, in, out, call.count, call.dtype, call.root, nullptr);
    case Kind::scatter:
      return rondo_scatter(comm, in, out, call.count, call.dtype, call.root, nullptr);
    case Kind::barrier:
      return rondo_barrier(comm, nullptr);
    case Kind::sendrecv:
      return exchange(comm, call, in, out);
  }
  return RONDO_ERR_INVALID;
}

rondo_status make_persistent(rondo_comm* comm, const Call& call, const void* in, void* out, rondo_op** op) {
  switch (call.kind) {
    case Kind::allreduce:
      return rondo_allreduce_init(comm, in, out, call.count, call.dtype, call.redop, nullptr, op);
    case Kind::reduce:
      return rondo_reduce_init(comm, in, out, call.count, call.dtype, call.redop, call.root, nullptr, op);
    case Kind::broadcast:
      return rondo_broadcast_init(comm, out, call.count, call.dtype, call.root, nullptr, op);
    case Kind::allgather:
      return rondo_allgather_init(comm, in, out, call.count, call.dtype, nullptr, op);
    case Kind::reduce_scatter:
      return rondo_reduce_scatter_init(comm, in, out, call.count, call.dtype, call.redop, nullptr, op);
    case Kind::alltoall:
      return rondo_alltoall_init(comm, in, out, call.count, call.dtype, nullptr, op);
    case Kind::gather:
      return rondo_gather_init(comm, in, out, call.count, call.dtype, call.root, nullptr, op);
    case Kind::scatter:
      return rondo_scatter_init(comm, in, out, call.count, call.dtype, call.root, nullptr, op);
    case Kind::barrier:
      return rondo_barrier_init(comm, nullptr, op);
    case Kind::sendrecv:
      return RONDO_ERR_UNSUPPORTED;
  }
  return RONDO_ERR_INVALID;
}

}  // namespace rondo::perf
