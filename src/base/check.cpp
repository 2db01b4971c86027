#include "base/check.h"

#include <cstdio>
#include <cstdlib>

namespace rondo {

void check_failed(const char* file, int line, const char* condition) {
  std::fprintf(stderr, "rondo: %s:%d: internal check failed: %s\n", file, line, condition);
  std::abort();
}

}  // namespace rondo
