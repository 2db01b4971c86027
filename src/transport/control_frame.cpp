#include "transport/control_frame.h"

namespace rondo {
namespace {

bool travels(uint8_t kind) {
  return kind >= static_cast<uint8_t>(ControlKind::goodbye) && kind <= static_cast<uint8_t>(ControlKind::note);
}

bool known_code(int32_t code) {
  return code >= static_cast<int32_t>(Code::internal) && code <= static_cast<int32_t>(Code::in_progress);
}

}  // namespace

std::string encode_control(const ControlMessage& message) {
  RONDO_CHECK(travels(static_cast<uint8_t>(message.kind)));
  const std::string_view text = std::string_view(message.text).substr(0, kControlTextMax);
  std::string out;
  put<uint8_t>(out, static_cast<uint8_t>(message.kind));
  put<uint8_t>(out, 0);
  put<uint16_t>(out, 0);
  put<uint32_t>(out, static_cast<uint32_t>(message.code));
  put<uint32_t>(out, message.culprit);
  put<uint32_t>(out, static_cast<uint32_t>(text.size()));
  out += text;
  return out;
}

Result<ControlFrame> parse_control(Bytes bytes) {
  ControlFrame frame;
  if (bytes.size() < kControlHeadBytes) return frame;
  WireReader in(bytes);
  const auto kind = in.get<uint8_t>();
  const auto zero = static_cast<uint32_t>(in.get<uint8_t>() | in.get<uint16_t>());
  const auto code = static_cast<int32_t>(in.get<uint32_t>());
  frame.message.culprit = in.get<uint32_t>();
  const auto text_bytes = in.get<uint32_t>();
  if (!travels(kind) || zero != 0) return fail(Code::invalid, "kind {}", kind);
  if (!known_code(code)) return fail(Code::invalid, "code {}", code);
  if (text_bytes > kControlTextMax)
    return fail(Code::invalid, "text of {} bytes, {} is the most", text_bytes, kControlTextMax);
  if (in.left() < text_bytes) return frame;
  frame.message.kind = static_cast<ControlKind>(kind);
  frame.message.code = static_cast<Code>(code);
  frame.message.text = in.get_string(text_bytes);
  frame.bytes = kControlHeadBytes + text_bytes;
  return frame;
}

}  // namespace rondo
