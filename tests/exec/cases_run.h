// run_case(): included once by each test program that uses cases.h.
#pragma once

#include "cases.h"

namespace rondo::test {

struct RankBuffers {
  std::unique_ptr<GuardedBuffer> in, out;  // one buffer when in place: `in` is then null
  std::byte* input = nullptr;
  std::byte* output = nullptr;
  std::vector<std::byte> original;  // of the input
  std::vector<size_t> in_counts, in_displs, out_counts, out_displs;
};

// Counts of the v-forms: uneven, some zero.
inline size_t uneven(const Case& c, uint32_t index) { return index % 3 == 1 ? 0 : c.count + index; }
inline size_t pair_count(const Case& c, Rank from, Rank to) {
  return (from + 2 * to) % 4 == 1 ? 0 : c.count + from + to;
}

inline size_t sum(const std::vector<size_t>& counts) {
  size_t total = 0;
  for (const size_t count : counts) total += count;
  return total;
}

inline std::vector<size_t> packed(const std::vector<size_t>& counts) {
  std::vector<size_t> displs(counts.size());
  for (size_t i = 1; i < counts.size(); ++i) displs[i] = displs[i - 1] + counts[i - 1];
  return displs;
}

inline void make_counts(const Case& c, Rank rank, RankBuffers& b) {
  b.in_counts.assign(c.world, c.count);
  b.out_counts.assign(c.world, c.count);
  for (uint32_t i = 0; c.vector_form && i < c.world; ++i) {
    const bool pairs = c.collective == Collective::alltoall;
    b.in_counts[i] = pairs ? pair_count(c, rank, i) : uneven(c, i);
    b.out_counts[i] = pairs ? pair_count(c, i, rank) : uneven(c, i);
  }
  b.in_displs = packed(b.in_counts);
  b.out_displs = packed(b.out_counts);
}

inline void make_buffers(const Case& c, Rank rank, RankBuffers& b) {
  const size_t size = size_of(c.dtype);
  make_counts(c, rank, b);
  size_t in = c.count, out = c.count, own_in_out = 0, own_out_in = 0;
  switch (c.collective) {
    case Collective::barrier:
      in = out = 0;
      break;
    case Collective::allgather:
      in = b.out_counts[rank], out = sum(b.out_counts), own_in_out = b.out_displs[rank];
      break;
    case Collective::gather:
      out = rank == c.root ? c.count * c.world : 0;
      break;
    case Collective::reduce_scatter:
      in = sum(b.in_counts), out = b.in_counts[rank], own_out_in = b.in_displs[rank];
      break;
    case Collective::scatter:
      in = rank == c.root ? c.count * c.world : 0;
      break;
    case Collective::alltoall:
      in = sum(b.in_counts), out = sum(b.out_counts);
      break;
    case Collective::reduce:
      out = rank == c.root ? c.count : 0;
      break;
    default:
      break;
  }
  if (c.collective == Collective::broadcast || (c.in_place && in <= out)) {
    b.out = std::make_unique<GuardedBuffer>(out * size, c.misalign);
    b.output = b.out->data();
    b.input = b.output + own_in_out * size;
  } else if (c.in_place) {
    b.out = std::make_unique<GuardedBuffer>(in * size, c.misalign);
    b.input = b.out->data();
    b.output = b.input + own_out_in * size;
  } else {
    b.in = std::make_unique<GuardedBuffer>(in * size, c.misalign);
    b.out = std::make_unique<GuardedBuffer>(out * size, c.misalign);
    b.input = b.in->data();
    b.output = b.out->data();
  }
  if (c.collective != Collective::broadcast || rank == c.root) fill(b.input, in, c.dtype, c.op, c.seed, rank);
  b.original.assign(b.input, b.input + in * size);
}

inline Request request_of(const Case& c, Rank rank, const RankBuffers& b) {
  Request r{.collective = c.collective,
            .input = b.input,
            .output = b.output,
            .count = c.collective == Collective::barrier ? 0 : c.count,
            .dtype = c.dtype,
            .op = c.op,
            .root = static_cast<int64_t>(c.root),
            .vector_form = c.vector_form};
  if (!c.vector_form) return r;
  if (c.collective == Collective::allgather) r.count = b.out_counts[rank];
  r.input_counts = b.in_counts.data();
  r.output_counts = b.out_counts.data();
  if (c.collective == Collective::alltoall) {
    r.input_displs = b.in_displs.data();
    r.output_displs = b.out_displs.data();
  }
  return r;
}

inline void check_against(const std::byte* got, const std::byte* wanted, size_t bytes) {
  if (bytes > 0 && std::memcmp(got, wanted, bytes) == 0) return;
  for (size_t i = 0; i < bytes; ++i)
    if (got[i] != wanted[i]) {
      INFO("first wrong byte " << i << " of " << bytes);
      CHECK(static_cast<int>(got[i]) == static_cast<int>(wanted[i]));
      return;
    }
}

inline std::vector<std::byte> reduced(const Case& c, const std::vector<RankBuffers>& all, size_t begin, size_t count) {
  std::vector<const void*> sources;
  for (const RankBuffers& b : all) sources.push_back(b.original.data() + begin * size_of(c.dtype));
  std::vector<std::byte> result(count * size_of(c.dtype));
  kernels::reference().reduce[static_cast<size_t>(c.dtype)][static_cast<size_t>(c.op)](
      {.sources = sources.data(),
       .source_count = c.world,
       .dst = result.data(),
       .dst2 = nullptr,
       .count = count,
       .divisor = c.op == RedOp::avg ? c.world : 0});
  return result;
}

inline void check_rank(const Case& c, Rank rank, const std::vector<RankBuffers>& all) {
  const RankBuffers& b = all[rank];
  const size_t size = size_of(c.dtype);
  if (b.in) {
    CHECK(b.in->guards_hold());
    check_against(b.input, b.original.data(), b.original.size());
  }
  if (b.out) CHECK(b.out->guards_hold());
  const auto from = [&](Rank r, size_t begin, size_t at, size_t count) {
    check_against(b.output + at * size, all[r].original.data() + begin * size, count * size);
  };
  switch (c.collective) {
    case Collective::barrier:
      break;
    case Collective::allreduce:
      check_against(b.output, reduced(c, all, 0, c.count).data(), c.count * size);
      break;
    case Collective::reduce:
      if (rank == c.root) check_against(b.output, reduced(c, all, 0, c.count).data(), c.count * size);
      break;
    case Collective::reduce_scatter:
      check_against(b.output, reduced(c, all, b.in_displs[rank], b.in_counts[rank]).data(), b.in_counts[rank] * size);
      break;
    case Collective::broadcast:
      from(c.root, 0, 0, c.count);
      break;
    case Collective::allgather:
      for (Rank r = 0; r < c.world; ++r) from(r, 0, b.out_displs[r], b.out_counts[r]);
      break;
    case Collective::alltoall:
      for (Rank r = 0; r < c.world; ++r) from(r, all[r].in_displs[rank], b.out_displs[r], b.out_counts[r]);
      break;
    case Collective::gather:
      for (Rank r = 0; r < c.world && rank == c.root; ++r) from(r, 0, r * c.count, c.count);
      break;
    case Collective::scatter:
      from(c.root, rank * c.count, 0, c.count);
      break;
  }
}

inline void run_case(Job& job, const Case& c) {
  std::vector<RankBuffers> all(c.world);
  std::vector<Operation*> operations;
  for (Rank rank = 0; rank < c.world; ++rank) make_buffers(c, rank, all[rank]);
  for (Rank rank = 0; rank < c.world; ++rank) {
    const Request request = request_of(c, rank, all[rank]);
    const Status valid = check(request, c.world, rank);
    INFO(valid.text());
    REQUIRE(valid.ok());
    operations.push_back(
        job.start(rank, request, {.algorithm = c.algorithm, .lanes = c.lanes, .piece = c.piece, .window = c.window}));
  }
  REQUIRE(job.crank(operations));
  for (Rank rank = 0; rank < c.world; ++rank) {
    INFO("rank " << rank << ": " << operations[rank]->status().text());
    CHECK(operations[rank]->status().ok());
    check_rank(c, rank, all);
  }
  for (Operation* operation : operations) operation->unref();
}

}  // namespace rondo::test
