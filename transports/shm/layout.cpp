#include "transports/shm/layout.h"

#include <algorithm>

namespace rondo::shm {

namespace {

constexpr uint64_t kPage = 4096;
constexpr uint32_t kLeastSlots = 4;

constexpr uint64_t up(uint64_t value, uint64_t unit) { return (value + unit - 1) / unit * unit; }

// Whether [offset, offset + count * unit) lies inside `total` bytes, without overflow.
bool fits(uint64_t offset, uint64_t count, uint64_t unit, uint64_t total) {
  if (offset > total) return false;
  return unit == 0 || count <= (total - offset) / unit;
}

}  // namespace

Result<Geometry> plan(size_t segment_bytes, size_t slot_bytes, uint32_t pairs) {
  if (pairs > kMaxPairs) return fail(Code::unsupported, "shm: {} peers on one host, at most {}", pairs, kMaxPairs);
  Geometry g;
  g.pairs = pairs;
  g.slot_bytes = slot_bytes;
  // One line more than the payload: slots of a power of two would all start in the same few sets of the caches.
  g.slot_stride = up(slot_bytes, kLine) + kLine;
  g.pairs_offset = up(sizeof(Header), kPage);
  g.directory_offset = g.pairs_offset + up(sizeof(Pair) * pairs, kPage);
  g.areas_offset = g.directory_offset + up(sizeof(AreaEntry) * kAreaEntries, kPage);
  g.areas_bytes = up(segment_bytes / 8, kPage);
  g.slots_offset = g.areas_offset + g.areas_bytes;
  const uint64_t least = g.slots_offset + kLeastSlots * g.slot_stride;
  if (segment_bytes < least)
    return fail(Code::invalid,
                "shm: a segment of {} bytes is too small for {} peers and slots of {} bytes: at least {}",
                segment_bytes, pairs, slot_bytes, up(least + least / 7, kPage));
  g.slots = static_cast<uint32_t>(std::min<uint64_t>(kMaxSlots, (segment_bytes - g.slots_offset) / g.slot_stride));
  g.segment_bytes = up(g.slots_offset + g.slots * g.slot_stride, kPage);
  return g;
}

Status check(const Geometry& g, uint64_t segment_bytes) {
  if (g.segment_bytes != segment_bytes)
    return fail(Code::peer, "shm: the segment says {} bytes and has {}", g.segment_bytes, segment_bytes);
  const bool aligned = g.pairs_offset % kLine == 0 && g.directory_offset % kLine == 0 && g.areas_offset % kLine == 0 &&
                       g.slots_offset % kLine == 0 && g.slot_stride % kLine == 0;
  const bool inside = g.pairs <= kMaxPairs && g.slots <= kMaxSlots && g.slot_bytes <= g.slot_stride &&
                      fits(g.pairs_offset, g.pairs, sizeof(Pair), segment_bytes) &&
                      fits(g.directory_offset, kAreaEntries, sizeof(AreaEntry), segment_bytes) &&
                      fits(g.areas_offset, g.areas_bytes, 1, segment_bytes) &&
                      fits(g.slots_offset, g.slots, g.slot_stride, segment_bytes);
  if (!aligned || !inside)
    return fail(Code::peer, "shm: the layout in the segment leads outside its {} bytes", segment_bytes);
  return {};
}

}  // namespace rondo::shm
