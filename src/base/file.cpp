#include "base/file.h"

#include <unistd.h>

#include <cerrno>

namespace rondo {

Result<std::string> read_rest(const UniqueFd& fd, size_t bytes_max, const std::string& name) {
  std::string text(bytes_max, '\0');
  size_t size = 0;
  while (size < text.size()) {
    const ssize_t got = read(fd.get(), text.data() + size, text.size() - size);
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) return system_error(errno, "read " + name);
    if (got == 0) break;
    size += static_cast<size_t>(got);
  }
  text.resize(size);
  return text;
}

}  // namespace rondo
