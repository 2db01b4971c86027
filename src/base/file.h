// Reads of small files. Any thread.
#pragma once

#include <cstddef>
#include <string>

#include "base/fd.h"
#include "base/status.h"

namespace rondo {

// What is left to read, or its first `bytes_max` bytes. System, with `name`: a read failed.
Result<std::string> read_rest(const UniqueFd& fd, size_t bytes_max, const std::string& name);

}  // namespace rondo
