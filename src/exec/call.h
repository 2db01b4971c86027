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

// The finaliser of splitmix64: every input bit reaches every output bit.
constexpr uint64_t mix(uint64_t x) {
  x += 0x9e3779b97f4a7c15u;
  x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9u;
  x = (x ^ (x >> 27)) * 0x94d049bb133111ebu;
  return x ^ (x >> 31);
}

// All facts of one call in a word.
uint64_t digest(const Call& call);
// The fingerprint of the call that follows calls with fingerprint `before`: a chain, so that an earlier difference
// shows in every later call.
constexpr uint64_t chain(uint64_t before, uint64_t digest) { return mix(before + digest); }

// "allreduce(count 1000, float32, sum)", "broadcast(count 8, int32, root 2)", "barrier()".
std::string describe(const Call& call);

}  // namespace rondo
