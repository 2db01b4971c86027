// Reduce-scatter through a workspace that all ranks share: every rank copies what the others will sum into its
// workspace round by round, and sums its own block by the canonical tree over rank order; what fits rides in the line
// that announces the call. An intrinsic, without steps.
#include "algo/common.h"

namespace rondo::algo {

extern constinit const Algorithm reduce_scatter_workspace = {
    .collective = Collective::reduce_scatter,
    .name = "workspace",
    .generate = nullptr,
    .chunks = one_chunk_a_rank_and_lane,
    .order = SumOrder::canonical,
    .cost = "1 hop, (p-1) n bytes in, p n summed; shared memory that all ranks write",
    .means = Means::workspace,
};

}  // namespace rondo::algo
