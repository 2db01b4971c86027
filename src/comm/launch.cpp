#include "comm/launch.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <string_view>

#include "base/fd.h"
#include "base/launcher.h"

namespace rondo {
namespace {

int hex_digit(char c) {
  if (c >= '0' && c <= '9') return c - '0';
  if (c >= 'a' && c <= 'f') return c - 'a' + 10;
  if (c >= 'A' && c <= 'F') return c - 'A' + 10;
  return -1;
}

Status parse_key(std::string_view text, const std::string& origin, std::array<uint8_t, 32>& key) {
  if (text.size() != 64)
    return fail(Code::invalid, "{}: the key has {} characters, expected 64 hexadecimal digits", origin, text.size());
  for (size_t i = 0; i < key.size(); ++i) {
    const int high = hex_digit(text[2 * i]), low = hex_digit(text[2 * i + 1]);
    if (high < 0 || low < 0)
      return fail(Code::invalid, "{}: character {} of the key is no hexadecimal digit", origin,
                  high < 0 ? 2 * i : 2 * i + 1);
    key[i] = static_cast<uint8_t>(high << 4 | low);
  }
  return {};
}

// The key without surrounding blanks. Regular files must be private; memory files and pipes are the launcher's.
Status read_key_file(const std::string& path, std::array<uint8_t, 32>& key) {
  const std::string origin = "RONDO_KEY_FILE=" + path;
  UniqueFd fd(open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NOCTTY));
  if (!fd) return system_error(errno, origin);
  struct stat facts;
  if (fstat(fd.get(), &facts) != 0) return system_error(errno, origin);
  if (S_ISREG(facts.st_mode) && facts.st_nlink > 0 && (facts.st_mode & 077) != 0)
    return fail(Code::auth, "{}: others may read it (mode {:03o}), expected 600", origin, facts.st_mode & 0777);
  char buffer[128];
  size_t length = 0;
  while (length < sizeof buffer) {
    // The file is shared with the other ranks: a position of one's own, except where there is none (a pipe).
    ssize_t got = pread(fd.get(), buffer + length, sizeof buffer - length, static_cast<off_t>(length));
    if (got < 0 && errno == ESPIPE) got = read(fd.get(), buffer + length, sizeof buffer - length);
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) return system_error(errno, origin);
    if (got == 0) break;
    length += static_cast<size_t>(got);
  }
  std::string_view text(buffer, length);
  while (!text.empty() && (text.back() == '\n' || text.back() == '\r' || text.back() == ' ')) text.remove_suffix(1);
  const Status status = parse_key(text, origin, key);
  explicit_bzero(buffer, sizeof buffer);
  return status;
}

}  // namespace

Result<Launch> launch_from(const Config& config, const char* key_hex) {
  auto placed = placement(config, static_cast<uint32_t>(getuid()), getppid());
  if (!placed.ok()) return placed.status();
  Launch launch{.rank = placed->rank,
                .world = placed->world,
                .rendezvous = placed->rendezvous,
                .listen_fd = -1,
                .family = placed->family};
  if (config.given(Key::listen_fd) && config.source(Key::rendezvous) != Source::options)
    launch.listen_fd = static_cast<int>(config.integer(Key::listen_fd));
  if (launch.world > 1 && launch.rendezvous.empty())
    return fail(Code::invalid,
                "rank {} of {} (from {}) has no place to meet the others; RONDO_RENDEZVOUS names one, for example "
                "tcp://host:port",
                launch.rank, launch.world, launch.family);
  if (key_hex != nullptr && *key_hex != 0) {
    RONDO_TRY(parse_key(key_hex, "options.key", launch.key));
    launch.keyed = true;
  } else if (config.given(Key::key_file)) {
    RONDO_TRY(read_key_file(config.text(Key::key_file), launch.key));
    launch.keyed = true;
  }
  if (!launch.keyed && config.flag(Key::require_key) && launch.world > 1)
    return fail(Code::auth, "RONDO_REQUIRE_KEY is set and there is no job key; expected RONDO_KEY_FILE or options.key");
  return launch;
}

}  // namespace rondo
