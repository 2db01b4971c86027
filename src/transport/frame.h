// The fixed header that starts every message, in every slot and on every wire, and the key that messages match by.
// Values; any thread.
#pragma once

#include <cstddef>
#include <cstdint>

namespace rondo {

inline constexpr uint8_t kFrameVersion = 1;

enum class FrameKind : uint8_t {
  step = 1,  // a message of a Schedule: (comm, seq, lane, slice)
  user = 2,  // point-to-point: `tag` in place of seq and slice
};

// Native byte order: all ranks of a job are of one architecture, which the handshake checks.
struct Frame {
  uint8_t version = kFrameVersion;
  FrameKind kind = FrameKind::step;
  uint8_t lane = 0;
  uint8_t flags = 0;
  uint32_t epoch = 0;        // of the communicator: late data of an older epoch is dropped, never reduced
  uint32_t comm = 0;
  uint32_t seq = 0;          // operation sequence of the communicator; user: low half of the tag
  uint32_t slice = 0;        // user: high half of the tag
  uint32_t crc = 0;          // 0 until check mode
  uint64_t bytes = 0;        // of the payload that follows
  uint64_t fingerprint = 0;  // of the call; user: bytes of the whole message of which this is a piece

  bool operator==(const Frame&) const = default;
};
static_assert(sizeof(Frame) == 40);

// Messages of one key from one peer are delivered in the order in which they were sent; different keys are independent.
struct StreamKey {
  uint32_t comm = 0;
  uint32_t seq = 0;
  uint32_t slice = 0;
  uint8_t lane = 0;
  FrameKind kind = FrameKind::step;

  bool operator==(const StreamKey&) const = default;
};

inline StreamKey key_of(const Frame& frame) { return {frame.comm, frame.seq, frame.slice, frame.lane, frame.kind}; }

}  // namespace rondo
