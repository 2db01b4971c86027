#include "exec/call.h"

#include <fmt/core.h>

namespace rondo {
uint64_t digest(const Call& call) {
  const uint64_t facts = static_cast<uint64_t>(call.collective) | static_cast<uint64_t>(call.dtype) << 8 |
                         static_cast<uint64_t>(call.op) << 16 | static_cast<uint64_t>(call.vector_form) << 24 |
                         static_cast<uint64_t>(call.root) << 32;
  const uint64_t extent = call.count ^ (static_cast<uint64_t>(call.choice) << 32 | call.choice >> 8);
  return mix(facts * 0xd6e8feb86659fd93u ^ extent);
}

std::string describe(const Call& call) {
  std::string text(name(call.collective));
  if (call.vector_form) text += "v";
  text += "(";
  if (call.collective != Collective::barrier) {
    if (call.vector_form) {
      text += fmt::format("counts #{:08x}, {}", static_cast<uint32_t>(call.count), name(call.dtype));
    } else {
      text += fmt::format("count {}, {}", call.count, name(call.dtype));
    }
    if (reduces(call.collective)) text += fmt::format(", {}", name(call.op));
    if (rooted(call.collective)) text += fmt::format(", root {}", call.root);
  }
  return text + ")";
}

}  // namespace rondo
