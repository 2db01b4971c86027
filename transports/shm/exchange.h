// The exchange that turns authenticated sockets into links: memfds passed both ways, and locality proven by a nonce
// that only a mapping of the segment can tell. Blocking until the deadline.
#pragma once

#include <memory>
#include <vector>

#include "base/clock.h"
#include "transport/mesh.h"
#include "transports/shm/endpoint.h"

namespace rondo::shm {

// `memfd` is the own segment's. Pair i of the own segment is for links[i].
Result<std::vector<Link>> exchange_segments(std::vector<MeshLink> links, Segment& own, int memfd, Deadline deadline);

}  // namespace rondo::shm
