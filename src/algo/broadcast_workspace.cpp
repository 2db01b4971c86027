// Broadcast through a workspace that all ranks share: root copies into its workspace round by round, a few rounds ahead
// of the others, who copy out; what fits rides in the line that announces the call. The root waits for nobody until it
// is that far ahead. An intrinsic, without steps.
#include "algo/common.h"

namespace rondo::algo {

extern constinit const Algorithm broadcast_workspace = {
    .collective = Collective::broadcast,
    .name = "workspace",
    .generate = nullptr,
    .chunks = one_chunk_a_lane,
    .order = SumOrder::none,
    .cost = "1 hop, n bytes in, n out; shared memory that all ranks write",
    .means = Means::workspace,
};

}  // namespace rondo::algo
