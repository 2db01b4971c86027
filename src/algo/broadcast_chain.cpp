// Broadcast along a chain that starts at the root and follows the ring order. With slices, all links are busy at once.
// Cost: p - 1 hops, n bytes over each link; (p - 2 + slices)/slices times n/b with slices.
#include "algo/common.h"

namespace rondo::algo {
namespace {

Schedule generate(const Shape& shape, Rank me) {
  const RingOrder ring(shape);
  const uint32_t at = ring.position(me);
  Ranks next;
  if (ring.rank(at, 1) != shape.root) next.push_back(ring.rank(at, 1));
  Builder build(shape, me);
  for (uint32_t lane = 0; lane < shape.lanes; ++lane) {
    build.lane(lane);
    if (me == shape.root) {
      build.copy_send(input(lane), output(lane), next);
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
    .cost = "p-1 hops, n bytes; large n in slices",
};

}  // namespace rondo::algo
