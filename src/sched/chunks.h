// How element counts are divided: the only place that does. Chunks of a buffer, blocks of ranks, slices of a chunk.
// 64-bit throughout; a product never overflows. Pure functions, any thread.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <span>

#include "base/check.h"

namespace rondo {

struct Range {
  size_t begin = 0;  // elements
  size_t count = 0;
  bool operator==(const Range&) const = default;
};

// First element of part `index` of `count` elements in `parts` parts: floor(index * count / parts), without overflow.
constexpr size_t part_begin(size_t count, uint32_t parts, uint32_t index) {
  return index * (count / parts) + (index * (count % parts)) / parts;
}
constexpr Range part(size_t count, uint32_t parts, uint32_t index) {
  const size_t begin = part_begin(count, parts, index);
  return {begin, part_begin(count, parts, index + 1) - begin};
}

// Where the chunks of one place lie. Either `blocks` is 1 and `count` elements are divided evenly, or the place is
// `blocks` blocks (one a rank) of `count` elements each, or of counts[b] elements at displs[b].
// The spans are borrowed; they must outlive the layout.
struct Layout {
  uint32_t chunks = 1;
  uint32_t blocks = 1;
  size_t count = 0;
  std::span<const size_t> counts = {};
  std::span<const size_t> displs = {};  // as many as counts

  Range chunk(uint32_t index) const {
    if (blocks == 1 && counts.empty()) return part(count, chunks, index);
    const uint32_t per_block = chunks / blocks;
    const uint32_t block = index / per_block;
    const Range inside = part(block_count(block), per_block, index % per_block);
    return {block_begin(block) + inside.begin, inside.count};
  }
  size_t block_count(uint32_t block) const { return counts.empty() ? count : counts[block]; }
  size_t block_begin(uint32_t block) const { return counts.empty() ? count * block : displs[block]; }
  // Elements of the largest chunk.
  size_t chunk_count_max() const {
    size_t largest = 0;
    if (counts.empty()) {
      const uint32_t per_block = chunks / blocks;
      return count / per_block + (count % per_block != 0);
    }
    for (uint32_t i = 0; i < chunks; ++i) largest = std::max(largest, chunk(i).count);
    return largest;
  }
};

// Slice `slice` of a chunk of `count` elements cut into pieces of `piece` elements. Slice 0 always exists (empty
// chunks still step); a later one exists only where it is not empty, and both ends of a message agree on that.
constexpr size_t slice_begin(size_t count, size_t piece, uint32_t slice) {
  size_t begin = 0;
  return __builtin_mul_overflow(static_cast<size_t>(slice), piece, &begin) ? count : std::min(count, begin);
}
constexpr bool slice_exists(size_t count, size_t piece, uint32_t slice) {
  return slice == 0 || slice_begin(count, piece, slice) < count;
}
constexpr Range slice_of(size_t count, size_t piece, uint32_t slice) {
  const size_t begin = slice_begin(count, piece, slice);
  return {begin, std::min(count - begin, piece)};
}
constexpr uint32_t slice_count(size_t largest_chunk, size_t piece) {
  return largest_chunk <= piece ? 1 : static_cast<uint32_t>((largest_chunk - 1) / piece + 1);
}

}  // namespace rondo
