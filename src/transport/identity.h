// Who this rank is, in which job: what every handshake proves. A value.
#pragma once

#include <array>
#include <cstdint>

#include "base/types.h"

namespace rondo {

struct Identity {
  uint64_t job = 0;  // agreed at the rendezvous: tells jobs and restarts apart
  uint32_t epoch = 0;
  Rank rank = 0;
  uint32_t world = 1;
  bool keyed = false;
  std::array<uint8_t, 32> key{};  // the job key; all zero when not keyed
};

}  // namespace rondo
