// Allreduce by claimed sums through a workspace that all ranks share: every rank copies its whole input in; whoever is
// running sums the next piece that nobody has claimed, by the canonical tree over rank order; every rank copies the
// sums out. An intrinsic, for more ranks than processors: a rank that is not running delays nobody. Where all buffers
// are memory from rondo_alloc they are read and written in place instead. Cost: 2 scheduler turns a round, n bytes
// copied in and out by each rank, n bytes read by each in the mean.
#include "algo/common.h"

namespace rondo::algo {

extern constinit const Algorithm allreduce_claims = {
    .collective = Collective::allreduce,
    .name = "claims",
    .generate = nullptr,
    .chunks = one_chunk_a_lane,
    .order = SumOrder::canonical,
    .cost = "2 scheduler turns, n bytes in, n summed, n out; shared memory that all ranks write, crowded hosts",
    .means = Means::claims,
};

}  // namespace rondo::algo
