// Broadcast, flat: the root publishes once to everyone. In shared memory that is one copy for all readers.
// Cost: 1 hop, n bytes published, (p - 1) n where a transport has no multicast.
#include "algo/common.h"

namespace rondo::algo {
namespace {

Schedule generate(const Shape& shape, Rank me) {
  Builder build(shape, me);
  for (uint32_t lane = 0; lane < shape.lanes; ++lane) {
    build.lane(lane);
    if (me == shape.root) {
      build.copy_send(input(lane), output(lane), others_after(shape.world, me));
    } else {
      build.recv(shape.root, output(lane));
    }
  }
  return std::move(build).finish();
}

}  // namespace

extern constinit const Algorithm broadcast_flat = {
    .collective = Collective::broadcast,
    .name = "flat",
    .generate = generate,
    .chunks = one_chunk_a_lane,
    .order = SumOrder::none,
    .cost = "1 hop, n bytes published; shared memory",
};

}  // namespace rondo::algo
