#include "base/status.h"

#include <cstring>

namespace rondo {

Status system_error(int error, std::string what) {
  char buffer[128];
  const char* reason = strerror_r(error, buffer, sizeof buffer);
  return fail(error == ENOMEM ? Code::no_memory : Code::system, "{}: {} (errno {})", what, reason, error);
}

}  // namespace rondo
