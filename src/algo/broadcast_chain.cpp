// Broadcast along a chain from the root, everyone passing on what it gets; slices make it a pipeline.
// Cost: p - 1 hops, n bytes a rank; large n.
#include "algo/common.h"

namespace rondo::algo {
namespace {

Schedule generate(const Shape& shape, Rank me) {
  const RingOrder ring(shape);
  const uint32_t at = ring.position(me);
  const bool last = ring.rank(at, 1) == shape.root;
  const Ranks next = last ? Ranks{} : Ranks{ring.rank(at, 1)};
  Builder build(shape, me);
  for (uint32_t lane = 0; lane < shape.lanes; ++lane) {
    build.lane(lane);
    if (me == shape.root) {
      build.send(input(lane), next);
    } else {
      build.recv_send(ring.before(at), output(lane), next);
    }
  }
  return std::move(build).finish();
}

}  // namespace

extern constinit const Algorithm broadcast_chain = {
    .collective = Collective::broadcast,
    .name = "chain",
    .generate = generate,
    .chunks = one_chunk_a_lane,
    .order = SumOrder::none,
    .cost = "p-1 hops, pipelined by slices, n bytes a rank; large n",
};

}  // namespace rondo::algo
