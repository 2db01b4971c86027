// How a ControlMessage stands on a stream: kind, three zero bytes, code, culprit, length of the text, text. Pure
// functions.
#pragma once

#include <cstddef>
#include <string>

#include "base/status.h"
#include "transport/control.h"
#include "transport/wire.h"

namespace rondo {

inline constexpr size_t kControlHeadBytes = 16;
inline constexpr size_t kControlTextMax = 4096;

// A longer text is cut (a cause is readable without its end).
std::string encode_control(const ControlMessage& message);

struct ControlFrame {
  ControlMessage message;  // `from` is not on the wire
  size_t bytes = 0;        // 0: more bytes are needed
};
// Reads the first message of a stream. Invalid: these bytes begin no message, whatever follows.
Result<ControlFrame> parse_control(Bytes bytes);

}  // namespace rondo
