// Which chunks of its buffers a rank has, by collective (the table in schedule.h). Used by the verifier only.
#pragma once

#include "sched/schedule.h"

namespace rondo {

// Whether the collective's buffers are `world` blocks.
constexpr bool in_blocks(Collective c) {
  return c == Collective::allgather || c == Collective::reduce_scatter || c == Collective::alltoall ||
         c == Collective::gather || c == Collective::scatter;
}

inline bool in_own_block(const Schedule& s, uint32_t chunk) { return chunk / (s.chunks / s.world) == s.rank; }

// Whether this rank is given that chunk of the input.
inline bool has_input(const Schedule& s, uint32_t chunk) {
  switch (s.collective) {
    case Collective::allgather:
    case Collective::gather:
      return in_own_block(s, chunk);
    case Collective::broadcast:
    case Collective::scatter:
      return s.rank == s.root;
    default:
      return true;
  }
}

// Whether this rank has that chunk of the output, so that it may use it and is promised a result there.
inline bool has_output(const Schedule& s, uint32_t chunk) {
  switch (s.collective) {
    case Collective::reduce:
    case Collective::gather:
      return s.rank == s.root;
    case Collective::reduce_scatter:
    case Collective::scatter:
      return in_own_block(s, chunk);
    case Collective::barrier:
      return false;
    default:
      return true;
  }
}

}  // namespace rondo
