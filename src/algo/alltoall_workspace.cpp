// Alltoall through a workspace that all ranks share: every rank copies the others' blocks into its workspace round by
// round, and its own out of theirs; what fits rides in the line that announces the call. An intrinsic, without steps.
#include "algo/common.h"

namespace rondo::algo {

extern constinit const Algorithm alltoall_workspace = {
    .collective = Collective::alltoall,
    .name = "workspace",
    .generate = nullptr,
    .chunks = one_chunk_a_rank_and_lane,
    .order = SumOrder::none,
    .cost = "1 hop, (p-1) n bytes in, (p-1) n out; shared memory that all ranks write",
    .means = Means::workspace,
};

}  // namespace rondo::algo
