// What was called: the facts on which all ranks must agree, their fingerprint, and their words for error texts.
// A value; any thread.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>

#include "base/types.h"

namespace rondo {

struct Call {
  Collective collective = Collective::barrier;
  DType dtype = DType::uint8;
  RedOp op = RedOp::sum;
  bool vector_form = false;  // allgatherv, reduce_scatterv, alltoallv
  uint32_t root = 0;
  uint32_t choice = 0;  // algorithm, lanes, pieces: a hash that all ranks compute alike
  uint64_t count = 0;   // elements; v-forms: a hash of the counts that all ranks know (alltoallv: 0)

  bool operator==(const Call&) const = default;
};

// The fingerprint of the call that follows calls with fingerprint `before`: a chain, so that an earlier difference
// shows in every later call.
uint64_t chain(uint64_t before, const Call& call);

// "allreduce(count 1000, float32, sum)", "broadcast(count 8, int32, root 2)", "barrier()".
std::string describe(const Call& call);

}  // namespace rondo
