// Logger: a value that is handed to whoever has something to say; there is no global one. A line goes to the caller's
// callback as bare text, or to stderr as "rondo[rank]: text". Const use from any thread is safe when the callback is.
// Writing never raises SIGPIPE and waits for a full stderr at most kStderrWaitMs, then drops the line.
#pragma once

#include <cstdint>
#include <string_view>
#include <utility>

#include <fmt/core.h>

namespace rondo {

// The numbers are those that rondo_options.log receives and the order of RONDO_LOG's words.
enum class LogLevel : int { error = 0, warn = 1, info = 2, debug = 3 };

using LogCallback = void (*)(void* arg, int level, const char* text);

struct LoggerOptions {
  LogLevel level = LogLevel::warn;  // lines above it are not made
  int64_t rank = -1;                // -1: not known yet, the prefix is "rondo: "
  LogCallback callback = nullptr;   // null: stderr
  void* callback_arg = nullptr;
};

class Logger {
 public:
  static constexpr int kStderrWaitMs = 100;

  Logger() = default;
  explicit Logger(LoggerOptions options) : options_(options) {}

  // The same logger for a process whose rank is known now.
  Logger with_rank(int64_t rank) const {
    Logger copy = *this;
    copy.options_.rank = rank;
    return copy;
  }
  bool enabled(LogLevel level) const { return level <= options_.level; }

  template <class... Args>
  void error(fmt::format_string<Args...> format, Args&&... args) const {
    make(LogLevel::error, format, std::forward<Args>(args)...);
  }
  template <class... Args>
  void warn(fmt::format_string<Args...> format, Args&&... args) const {
    make(LogLevel::warn, format, std::forward<Args>(args)...);
  }
  template <class... Args>
  void info(fmt::format_string<Args...> format, Args&&... args) const {
    make(LogLevel::info, format, std::forward<Args>(args)...);
  }
  template <class... Args>
  void debug(fmt::format_string<Args...> format, Args&&... args) const {
    make(LogLevel::debug, format, std::forward<Args>(args)...);
  }

  // One line, written if `level` is enabled. Control characters (the text may hold bytes of a peer) become '?'.
  void write(LogLevel level, std::string_view text) const;

 private:
  template <class... Args>
  void make(LogLevel level, fmt::format_string<Args...> format, Args&&... args) const {
    if (enabled(level)) write(level, fmt::format(format, std::forward<Args>(args)...));
  }

  LoggerOptions options_;
};

}  // namespace rondo
