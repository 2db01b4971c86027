// The one-shot allreduce of small payloads: an intrinsic, executed on shared cells instead of steps. Every rank
// publishes its input in its own cell and reduces all cells in rank order (canonical sum), in one scheduler turn.
// Progress-lease holder only.
#pragma once

#include <memory>
#include <vector>

#include "base/types.h"
#include "transport/cells.h"
#include "transport/contract.h"

namespace rondo {

struct OneShotCells {
  std::unique_ptr<SharedArea> area;
  Cells cells;
  uint64_t next_turn = 1;            // of the next call to be submitted
  uint64_t turns_complete = 0;       // a turn is published only when the one before is complete here
  std::vector<const void*> sources;  // room for one pointer a member
};

}  // namespace rondo
