// Allreduce by owner sums through a workspace that all ranks share: every rank copies its input in, sums its own part
// of every round by the canonical tree over rank order, and copies the other sums out. An intrinsic: rounds overlap by
// one flag a phase. Where all buffers are memory from rondo_alloc they are read and written in place instead. Cost: 3
// phases a round, (p - 1)/p n bytes copied in and out and n bytes read by each rank.
#include "algo/common.h"

namespace rondo::algo {

extern constinit const Algorithm allreduce_owners = {
    .collective = Collective::allreduce,
    .name = "owners",
    .generate = nullptr,
    .chunks = one_chunk_a_rank_and_lane,
    .order = SumOrder::canonical,
    .cost = "3 phases, (p-1)/p n bytes in, n summed, (p-1)/p n out; shared memory that all ranks write",
    .means = Means::workspace,
};

}  // namespace rondo::algo
