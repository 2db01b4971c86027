// The verifier: proves that the programs of all ranks do what their collective promises, without data. Each rank's
// program runs on its Walker with symbolic values, so that what is proven is what the executor runs. Used by the tests,
// rondo-sched, and wherever a Schedule comes from outside. Pure; any thread.
//
// What is proven, for the given window, slices and operations in flight:
//  - structure: lists, chunks, scratch, lanes and waits in bounds; operands in rank order; fields that a step does not
//    use are zero;
//  - sizes: both ends of a message and both sides of a copy agree on the chunk that names the size (for alltoall on the
//    pair of ranks), so any block sizes work;
//  - values: every sum takes each rank once and one chunk only, kFinal stands exactly on the sums of all ranks, nothing
//    unwritten is read, the result is right on every rank, and for allreduce it is the same reduction tree everywhere;
//  - barrier: when a rank leaves, every rank's entry happened before, by lane order, waits and messages;
//  - races: two steps that touch one chunk, one of them writing, are ordered by lanes and waits of that rank;
//  - progress: no deadlock where sends are buffered at once, where a send reads its source until it is received and a
//    stream holds one message (a step that also receives takes its messages and then waits for room), and where a
//    stream holds two and a step does all of its parts at once; in a fixed order and in seeded random ones, with leaf
//    actions that finish at once and late;
//  - nothing is left in any stream.
#pragma once

#include <cstdint>
#include <span>

#include "base/status.h"
#include "sched/schedule.h"

namespace rondo {

struct VerifyOptions {
  uint32_t window = 1;
  uint32_t slices = 1;
  uint32_t operations_in_flight = 1;
  bool in_place = false;
  uint32_t random_orders = 1;  // seeded orders tried for each of the three send models
  uint64_t seed = 1;
};

// Invalid: the text names the rank, the step and the chunk. Unsupported: too large to be verified in memory, or a
// collective that has no in-place form.
Status verify(std::span<const Schedule> all_ranks, const VerifyOptions& options);

// The part that needs one rank only: structure.
Status check_structure(const Schedule& schedule);
// Races within one rank; the structure must be sound.
Status check_races(const Schedule& schedule, bool in_place);

// Whether the collective has a form where the output lies over the input.
constexpr bool has_in_place_form(Collective c) {
  return c == Collective::allreduce || c == Collective::reduce || c == Collective::broadcast ||
         c == Collective::allgather || c == Collective::reduce_scatter;
}

}  // namespace rondo
