#include "run/output.h"

#include <errno.h>
#include <limits.h>
#include <sys/stat.h>
#include <unistd.h>

#include <array>

namespace rondo::run {
namespace {

constexpr size_t kReadBytes = 64 * 1024;

// A pipe or terminal that poll calls writable has room for PIPE_BUF bytes; a regular file never blocks.
size_t write_limit(int fd) {
  struct stat facts {};
  return fstat(fd, &facts) == 0 && S_ISREG(facts.st_mode) ? size_t{1} << 18 : size_t{PIPE_BUF};
}

}  // namespace

Sink::Sink(int fd) : fd_(fd), terminal_(isatty(fd) == 1), write_max_(write_limit(fd)) {}

void Sink::write_some() {
  if (empty()) return;
  const size_t bytes = std::min(write_max_, pending_.size() - at_);
  const ssize_t wrote = ::write(fd_, pending_.data() + at_, bytes);
  if (wrote < 0) {
    if (errno == EINTR || errno == EAGAIN) return;
    broken_ = true;
    at_ = pending_.size();
  } else {
    at_ += static_cast<size_t>(wrote);
  }
  if (empty() || at_ > kPendingMax) {
    pending_.erase(0, at_);
    at_ = 0;
  }
}

void LineStream::read_some() {
  if (fd_ < 0) return;
  std::array<char, kReadBytes> bytes;
  const ssize_t got = ::read(fd_, bytes.data(), bytes.size());
  if (got > 0) {
    take({bytes.data(), static_cast<size_t>(got)});
  } else if (got == 0 || (errno != EINTR && errno != EAGAIN)) {
    close();
  }
}

void LineStream::take(std::string_view bytes) {
  while (!bytes.empty()) {
    const size_t end = bytes.find('\n');
    if (end == std::string_view::npos) {
      partial_.append(bytes);
      if (partial_.size() < kLineMax) return;
      put_line(partial_, {});
      partial_.clear();
      return;
    }
    put_line(partial_, bytes.substr(0, end));
    partial_.clear();
    bytes.remove_prefix(end + 1);
  }
}

void LineStream::close() {
  if (!partial_.empty()) put_line(partial_, {});
  partial_.clear();
  if (fd_ >= 0) ::close(fd_);
  fd_ = -1;
}

void LineStream::put_line(std::string_view start, std::string_view rest) {
  sink_->add(prefix_);
  sink_->add(start);
  sink_->add(rest);
  sink_->add("\n");
}

std::string rank_prefix(unsigned rank, unsigned ranks, bool colour) {
  static constexpr std::array<const char*, 6> kColours = {"\x1b[36m", "\x1b[32m", "\x1b[33m",
                                                          "\x1b[35m", "\x1b[34m", "\x1b[31m"};
  const size_t width = std::to_string(ranks - 1).size();
  std::string number = std::to_string(rank);
  const std::string pad(width - std::min(width, number.size()), ' ');
  std::string text = "[" + number + "]";
  if (colour) text = kColours[rank % kColours.size()] + text + "\x1b[0m";
  return text + " " + pad;
}

}  // namespace rondo::run
