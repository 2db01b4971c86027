// How this process joins its job: its placement, and the job key. A value.
#pragma once

#include <array>
#include <cstdint>
#include <string>

#include "base/config.h"
#include "base/status.h"
#include "base/types.h"

namespace rondo {

struct Launch {
  Rank rank = 0;
  uint32_t world = 1;
  std::string rendezvous;
  int listen_fd = -1;  // inherited from the launcher
  bool keyed = false;
  std::array<uint8_t, 32> key{};
  std::string family;  // the launcher whose variables count
};

// From the configuration; `key_hex` (64 hex digits, null or empty: RONDO_KEY_FILE) wins over the file.
// Invalid: contradicting variables, a world without a way to meet, a malformed key. Auth: a key is required and
// missing, or the key file can be read by others.
Result<Launch> launch_from(const Config& config, const char* key_hex);

}  // namespace rondo
