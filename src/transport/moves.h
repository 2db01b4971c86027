// Copies of a few bytes by register moves, for payloads that travel inside a flag line or a descriptor. Never libc
// memcpy: a call costs more than the move, and its string instructions crawl on lines that another core holds. Any
// thread.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>

namespace rondo {

namespace moves {

// One load and one store of a register's width; unaligned is fine.
template <size_t kBytes>
inline void move(std::byte* to, const std::byte* from) {
  struct Block {
    std::byte bytes[kBytes];
  } block;
  __builtin_memcpy(&block, from, kBytes);
  __builtin_memcpy(to, &block, kBytes);
}

}  // namespace moves

// Copies exactly `bytes` bytes; nothing outside either range is touched. Meant for up to a few KiB.
inline void copy_moves(std::byte* to, const std::byte* from, size_t bytes) {
  size_t at = 0;
  for (; at + 16 <= bytes; at += 16) {
    moves::move<16>(to + at, from + at);
    // Keeps the compiler from turning the loop into a call of memcpy.
    asm volatile("" ::: "memory");
  }
  const size_t rest = bytes - at;
  if (rest == 0) return;
  if (bytes >= 16) return moves::move<16>(to + bytes - 16, from + bytes - 16);
  if (rest >= 8) {
    moves::move<8>(to, from);
    return moves::move<8>(to + rest - 8, from + rest - 8);
  }
  if (rest >= 4) {
    moves::move<4>(to, from);
    return moves::move<4>(to + rest - 4, from + rest - 4);
  }
  for (size_t i = 0; i < rest; ++i) moves::move<1>(to + i, from + i);
}

}  // namespace rondo
