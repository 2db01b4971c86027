// Allgather through a workspace that all ranks share: every rank copies its block into its workspace round by round,
// and all others' blocks out; what fits rides in the line that announces the call. An intrinsic, without steps.
#include "algo/common.h"

namespace rondo::algo {

extern constinit const Algorithm allgather_workspace = {
    .collective = Collective::allgather,
    .name = "workspace",
    .generate = nullptr,
    .chunks = one_chunk_a_rank_and_lane,
    .order = SumOrder::none,
    .cost = "1 hop, n bytes in, (p-1) n out; shared memory that all ranks write",
    .means = Means::workspace,
};

}  // namespace rondo::algo
