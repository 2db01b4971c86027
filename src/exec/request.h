// A collective as it was asked for, checked and bound to memory: from raw arguments to a Call and a Binding.
// Pure functions of their arguments; any thread.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "base/status.h"
#include "base/types.h"
#include "exec/call.h"
#include "exec/operation.h"

namespace rondo {

struct Request {
  Collective collective = Collective::barrier;
  const void* input = nullptr;
  void* output = nullptr;
  size_t count = 0;  // as the C call takes it: whole buffer, per rank, or per pair
  DType dtype = DType::uint8;
  RedOp op = RedOp::sum;
  int64_t root = 0;
  bool vector_form = false;
  // v-forms; world entries each. displs null: packed.
  const size_t* input_counts = nullptr;
  const size_t* input_displs = nullptr;
  const size_t* output_counts = nullptr;
  const size_t* output_displs = nullptr;
};

// Checks everything that can be checked without the peers: ranges, nulls, overflow, overlap, definedness. The text
// names the argument, its value and what was expected.
Status check(const Request& request, uint32_t world, Rank rank);

// What all ranks must agree on, less the choice.
Call call_of(const Request& request, uint32_t world);

// The size by which an algorithm is chosen: the buffer, or one rank's block. Equal on all ranks (0 for alltoallv, whose
// counts are not known to all).
size_t choice_bytes(const Request& request, uint32_t world);

// Fills the places, dtype, op, divisor and in_place of `binding` for a Schedule of `chunks` chunks.
void bind(const Request& request, uint32_t world, Rank rank, uint32_t chunks, Binding& binding);

}  // namespace rondo
