// The exchange that turns authenticated sockets into links: memfds passed both ways, and locality proven by a nonce
// that only a mapping of the segment can tell. Blocking until the deadline.
#pragma once

#include <memory>
#include <vector>

#include "base/clock.h"
#include "transport/mesh.h"
#include "transports/shm/endpoint.h"

namespace rondo::shm {

// What this rank passes on.
struct Passed {
  int segment_fd = -1;
  int heap_fd = -1;  // -1: peers do not read this rank's heap
  uint64_t heap_bytes = 0;
};
// Pair i of the own segment is for links[i].
Result<std::vector<Link>> exchange_segments(std::vector<MeshLink> links, Segment& own, const Passed& passed,
                                            Deadline deadline);

}  // namespace rondo::shm
