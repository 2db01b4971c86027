// Allreduce, one shot: every rank publishes its whole input once, every rank sums all inputs by the canonical tree over
// rank order. An intrinsic of shared memory (the payload rides in the writer's flag line), so there are no steps.
// Cost: 1 hop, n bytes published and (p - 1) n bytes read by each rank.
#include "algo/common.h"

namespace rondo::algo {

extern constinit const Algorithm allreduce_oneshot = {
    .collective = Collective::allreduce,
    .name = "oneshot",
    .generate = nullptr,
    .chunks = one_chunk_a_lane,
    .order = SumOrder::canonical,
    .cost = "1 hop, (p-1) n bytes read; shared memory, up to 16 KiB",
    .means = Means::cells,
};

}  // namespace rondo::algo
