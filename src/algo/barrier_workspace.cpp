// Barrier through a workspace that all ranks share: every rank enters a turn of the workspace and waits until all have.
// An intrinsic, without steps.
#include "algo/common.h"

namespace rondo::algo {

extern constinit const Algorithm barrier_workspace = {
    .collective = Collective::barrier,
    .name = "workspace",
    .generate = nullptr,
    .chunks = one_chunk_a_lane,
    .order = SumOrder::none,
    .cost = "1 hop, a line a rank; shared memory that all ranks write",
    .means = Means::workspace,
};

}  // namespace rondo::algo
