// The ranks' output, merged line by line onto the launcher's own stdout and stderr. Owned by the supervising loop, one
// thread. Nothing here blocks: a slow reader of the launcher's output holds the ranks back through their pipes, and
// never the supervision.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>

namespace rondo::run {

// Bytes on their way to one descriptor of the launcher.
class Sink {
 public:
  explicit Sink(int fd);

  int fd() const { return fd_; }
  bool terminal() const { return terminal_; }
  void add(std::string_view text) { pending_.append(text); }
  bool empty() const { return at_ == pending_.size(); }
  bool full() const { return pending_.size() - at_ > kPendingMax; }
  bool broken() const { return broken_; }  // nobody reads any more

  // Writes what fits without blocking; call it when poll says the descriptor is writable.
  void write_some();

 private:
  static constexpr size_t kPendingMax = 1 << 20;

  int fd_;
  bool terminal_;
  bool broken_ = false;
  size_t write_max_;
  size_t at_ = 0;
  std::string pending_;
};

// One output pipe of one rank: bytes in, whole lines with the rank's prefix out. A line longer than kLineMax is broken.
class LineStream {
 public:
  static constexpr size_t kLineMax = 1 << 20;

  LineStream(int fd, std::string prefix, Sink& sink) : fd_(fd), prefix_(std::move(prefix)), sink_(&sink) {}

  int fd() const { return fd_; }  // -1 once closed
  Sink& sink() const { return *sink_; }

  // Reads once; call it when poll says there is something. Closes itself at the end of the stream.
  void read_some();
  // Takes bytes as if read. Split from read_some so that it can be tested without a pipe.
  void take(std::string_view bytes);
  // Puts out an unfinished last line and closes the descriptor.
  void close();

 private:
  void put_line(std::string_view start, std::string_view rest);

  int fd_;
  std::string prefix_;
  Sink* sink_;
  std::string partial_;
};

// "[3] ", padded so that the text of all ranks lines up; coloured by rank when `colour`.
std::string rank_prefix(unsigned rank, unsigned ranks, bool colour);

}  // namespace rondo::run
