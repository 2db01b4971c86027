#include "exec/request.h"

#include <algorithm>
#include <limits>
#include <numeric>
#include <string>
#include <vector>

namespace rondo {
namespace {

struct Span {
  uintptr_t begin = 0, end = 0;
  bool overlaps(const Span& other) const { return begin < other.end && other.begin < end; }
};

Span span_of(const void* base, size_t bytes) {
  const uintptr_t at = reinterpret_cast<uintptr_t>(base);
  return {at, at + bytes};
}

// elements * size; nullopt when that is more than an address can say.
std::optional<size_t> bytes_for(size_t elements, size_t size) {
  size_t bytes;
  if (__builtin_mul_overflow(elements, size, &bytes) || bytes > std::numeric_limits<ptrdiff_t>::max())
    return std::nullopt;
  return bytes;
}

std::optional<size_t> total_of(const size_t* counts, uint32_t world) {
  size_t total = 0;
  for (uint32_t rank = 0; rank < world; ++rank)
    if (__builtin_add_overflow(total, counts[rank], &total)) return std::nullopt;
  return total;
}

// The elements from the start of a buffer to the end of its last part; nullopt on overflow.
std::optional<size_t> extent_of(const size_t* counts, const size_t* displs, uint32_t world) {
  if (displs == nullptr) return total_of(counts, world);
  size_t end = 0;
  for (uint32_t rank = 0; rank < world; ++rank) {
    size_t last;
    if (__builtin_add_overflow(displs[rank], counts[rank], &last)) return std::nullopt;
    if (counts[rank] > 0) end = std::max(end, last);
  }
  return end;
}

Status parts_do_not_overlap(const char* what, const size_t* counts, const size_t* displs, uint32_t world) {
  if (displs == nullptr) return {};
  std::vector<uint32_t> order(world);
  std::iota(order.begin(), order.end(), 0);
  std::sort(order.begin(), order.end(), [&](uint32_t a, uint32_t b) { return displs[a] < displs[b]; });
  size_t end = 0;
  uint32_t before = 0;
  for (const uint32_t rank : order) {
    if (counts[rank] == 0) continue;
    if (displs[rank] < end)
      return fail(Code::invalid, "{}: part {} (displacement {}) overlaps part {} (ends at {})", what, rank,
                  displs[rank], before, end);
    end = displs[rank] + counts[rank];
    before = rank;
  }
  return {};
}

std::string called(const Request& request) {
  return std::string(name(request.collective)) + (request.vector_form ? "v" : "");
}

// Elements of a place; nullopt on overflow. Places a rank does not use have 0.
std::optional<size_t> input_elements(const Request& r, uint32_t world, Rank rank) {
  size_t all;
  const bool fits = !__builtin_mul_overflow(r.count, static_cast<size_t>(world), &all);
  switch (r.collective) {
    case Collective::allreduce:
    case Collective::reduce:
    case Collective::broadcast:
    case Collective::gather:
      return r.count;
    case Collective::allgather:
      return r.vector_form ? r.output_counts[rank] : r.count;
    case Collective::reduce_scatter:
      if (r.vector_form) return total_of(r.input_counts, world);
      return fits ? std::optional(all) : std::nullopt;
    case Collective::alltoall:
      if (r.vector_form) return extent_of(r.input_counts, r.input_displs, world);
      return fits ? std::optional(all) : std::nullopt;
    case Collective::scatter:
      if (static_cast<Rank>(r.root) != rank) return 0;
      return fits ? std::optional(all) : std::nullopt;
    case Collective::barrier:
      return 0;
  }
  return 0;
}

std::optional<size_t> output_elements(const Request& r, uint32_t world, Rank rank) {
  size_t all;
  const bool fits = !__builtin_mul_overflow(r.count, static_cast<size_t>(world), &all);
  switch (r.collective) {
    case Collective::allreduce:
    case Collective::broadcast:
    case Collective::scatter:
      return r.count;
    case Collective::reduce:
      return static_cast<Rank>(r.root) == rank ? r.count : 0;
    case Collective::allgather:
      if (r.vector_form) return extent_of(r.output_counts, r.output_displs, world);
      return fits ? std::optional(all) : std::nullopt;
    case Collective::reduce_scatter:
      return r.vector_form ? r.input_counts[rank] : r.count;
    case Collective::alltoall:
      if (r.vector_form) return extent_of(r.output_counts, r.output_displs, world);
      return fits ? std::optional(all) : std::nullopt;
    case Collective::gather:
      if (static_cast<Rank>(r.root) != rank) return 0;
      return fits ? std::optional(all) : std::nullopt;
    case Collective::barrier:
      return 0;
  }
  return 0;
}

size_t prefix(const size_t* counts, Rank rank) {
  size_t sum = 0;
  for (Rank r = 0; r < rank; ++r) sum += counts[r];
  return sum;
}

size_t own_displ(const size_t* counts, const size_t* displs, Rank rank) {
  return displs != nullptr ? displs[rank] : prefix(counts, rank);
}

// Where the output lies, as an element offset in the input (or the input in the output), for the legal in-place form.
bool is_in_place(const Request& r, Rank rank) {
  const std::byte* in = static_cast<const std::byte*>(r.input);
  const std::byte* out = static_cast<const std::byte*>(r.output);
  const size_t size = size_of(r.dtype);
  switch (r.collective) {
    case Collective::allreduce:
    case Collective::reduce:
    case Collective::broadcast:
      return in == out;
    case Collective::allgather:
      return in == out + (r.vector_form ? own_displ(r.output_counts, r.output_displs, rank) : rank * r.count) * size;
    case Collective::reduce_scatter:
      return out == in + (r.vector_form ? prefix(r.input_counts, rank) : rank * r.count) * size;
    default:
      return false;
  }
}

Status check_place(const Request& request, const char* what, const void* base, std::optional<size_t> elements) {
  const auto bytes = elements ? bytes_for(*elements, size_of(request.dtype)) : std::nullopt;
  if (!bytes)
    return fail(Code::invalid, "{}: count {} of {} ({} bytes each) is more than memory can hold", called(request),
                request.count, name(request.dtype), size_of(request.dtype));
  if (base == nullptr && *bytes > 0)
    return fail(Code::invalid, "{}: {} is NULL but {} bytes are needed", called(request), what, *bytes);
  return {};
}

void own_array(std::vector<size_t>& counts, std::vector<size_t>& displs, const size_t* given_counts,
               const size_t* given_displs, uint32_t world) {
  counts.assign(given_counts, given_counts + world);
  displs.resize(world);
  for (uint32_t rank = 0; rank < world; ++rank)
    displs[rank] = given_displs != nullptr ? given_displs[rank] : (rank == 0 ? 0 : displs[rank - 1] + counts[rank - 1]);
}

}  // namespace

Status check(const Request& request, uint32_t world, Rank rank) {
  if (rooted(request.collective) && (request.root < 0 || request.root >= world))
    return fail(Code::invalid, "{}: root {} is out of range, the world has {} ranks", called(request), request.root,
                world);
  if (reduces(request.collective) && !is_defined(request.dtype, request.op))
    return fail(Code::invalid, "{}: {} is not defined for {}", called(request), name(request.op), name(request.dtype));
  if (request.vector_form) {
    const bool need_out = request.collective != Collective::reduce_scatter;
    const bool need_in = request.collective != Collective::allgather;
    if ((need_in && request.input_counts == nullptr) || (need_out && request.output_counts == nullptr))
      return fail(Code::invalid, "{}: counts is NULL, expected {} entries", called(request), world);
    if (request.collective == Collective::allgather && request.count != request.output_counts[rank])
      return fail(Code::invalid, "{}: in_count is {} but counts[{}] is {}", called(request), request.count, rank,
                  request.output_counts[rank]);
  }
  const Request& r = request;
  const auto in = input_elements(r, world, rank), out = output_elements(r, world, rank);
  RONDO_TRY(check_place(r, "in", r.input, in));
  RONDO_TRY(check_place(r, "out", r.output, out));
  if (r.vector_form && r.collective != Collective::reduce_scatter)
    RONDO_TRY(parts_do_not_overlap(called(r).c_str(), r.output_counts, r.output_displs, world));
  const size_t size = size_of(r.dtype);
  if (*in > 0 && *out > 0 && !is_in_place(r, rank) &&
      span_of(r.input, *in * size).overlaps(span_of(r.output, *out * size)))
    return fail(Code::invalid, "{}: in and out overlap, and not in the one way that is in place", called(r));
  return {};
}

Call call_of(const Request& request, uint32_t world) {
  Call call;
  call.collective = request.collective;
  call.dtype = request.dtype;
  call.op = reduces(request.collective) ? request.op : RedOp::sum;
  call.root = rooted(request.collective) ? static_cast<uint32_t>(request.root) : 0;
  call.vector_form = request.vector_form;
  call.count = request.count;
  if (!request.vector_form) return call;
  call.count = 0;
  const size_t* counts = request.collective == Collective::allgather        ? request.output_counts
                         : request.collective == Collective::reduce_scatter ? request.input_counts
                                                                            : nullptr;
  uint64_t hash = 0xcbf29ce484222325u;
  for (uint32_t rank = 0; counts != nullptr && rank < world; ++rank) hash = (hash ^ counts[rank]) * 0x100000001b3u;
  if (counts != nullptr) call.count = hash;
  return call;
}

size_t choice_bytes(const Request& request, uint32_t world) {
  const size_t size = size_of(request.dtype);
  if (!request.vector_form) return request.count * size;
  if (request.collective == Collective::alltoall) return 0;
  const size_t* counts = request.collective == Collective::allgather ? request.output_counts : request.input_counts;
  return *std::max_element(counts, counts + world) * size;
}

void bind(const Request& r, uint32_t world, Rank rank, uint32_t chunks, Binding& binding) {
  binding.dtype = r.dtype;
  binding.op = r.op;
  binding.divisor = r.op == RedOp::avg && reduces(r.collective) ? world : 0;
  binding.in_place = r.input != nullptr && is_in_place(r, rank);
  binding.input = {.base = static_cast<std::byte*>(const_cast<void*>(r.input)), .layout = {.chunks = chunks}};
  binding.output = {.base = static_cast<std::byte*>(r.output), .layout = {.chunks = chunks}};
  Layout &in = binding.input.layout, &out = binding.output.layout;
  const bool whole = r.collective == Collective::allreduce || r.collective == Collective::reduce ||
                     r.collective == Collective::broadcast || r.collective == Collective::barrier;
  in.count = out.count = r.count;
  if (whole) return;
  in.blocks = out.blocks = world;
  if (r.vector_form) {
    const bool gathers = r.collective == Collective::allgather;
    own_array(binding.counts[0], binding.displs[0], gathers ? r.output_counts : r.input_counts,
              gathers ? r.output_displs : r.input_displs, world);
    const bool separate = r.collective == Collective::alltoall;
    if (separate) own_array(binding.counts[1], binding.displs[1], r.output_counts, r.output_displs, world);
    in.counts = binding.counts[0];
    in.displs = binding.displs[0];
    out.counts = binding.counts[separate ? 1 : 0];
    out.displs = binding.displs[separate ? 1 : 0];
  }
  if (r.collective == Collective::allgather || r.collective == Collective::gather)
    binding.input.origin = in.block_begin(rank);
  if (r.collective == Collective::reduce_scatter || r.collective == Collective::scatter)
    binding.output.origin = out.block_begin(rank);
}

}  // namespace rondo
