// The text of an abort message: the group it ends as eight hexadecimal digits, then the cause. Pure; any thread.
#pragma once

#include <cstdint>
#include <string>

#include <fmt/core.h>

namespace rondo {

inline constexpr uint32_t kWorldGroup = 1;  // the group of all ranks of a fabric

// How long a rank that has lost a link waits for another's word of the first cause.
inline constexpr int64_t kCauseWaitMs = 200;

inline std::string with_comm(uint32_t comm, const std::string& cause) { return fmt::format("{:08x}{}", comm, cause); }

inline std::string without_comm(const std::string& text) { return text.size() < 8 ? text : text.substr(8); }

}  // namespace rondo
