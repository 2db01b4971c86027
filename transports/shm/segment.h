// Segment: one rank's memfd, mapped: by its owner for writing, by its peers read-only. Its size is sealed, so no access
// to the mapping can fault whatever the other side does. Resources; the memory is as the layout says.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>

#include "base/fd.h"
#include "base/status.h"
#include "base/types.h"
#include "transports/shm/layout.h"

namespace rondo::shm {

// A mapping that ends with the object.
class Mapping {
 public:
  Mapping() = default;
  Mapping(std::byte* base, size_t bytes) : base_(base), bytes_(bytes) {}
  Mapping(Mapping&& other) noexcept;
  Mapping& operator=(Mapping&& other) noexcept;
  ~Mapping();
  std::byte* base() const { return base_; }
  size_t bytes() const { return bytes_; }

 private:
  std::byte* base_ = nullptr;
  size_t bytes_ = 0;
};

// A memfd of that size, close-on-exec. Errors instead of SIGXFSZ where the file size is limited.
Result<UniqueFd> make_memfd(const char* name, size_t bytes);
// Makes the size of a memfd final.
Status seal_size(int fd);
enum class Access : uint8_t { read, write };
// Maps what a peer passed; refuses a descriptor that is not a memfd of `bytes` bytes with sealed size.
Result<Mapping> map_passed(int fd, uint64_t bytes, Access access);

class Segment {
 public:
  // A new segment for `rank`, empty but for the header. `*fd` gets the memfd to pass on; the mapping does not need it.
  static Result<std::shared_ptr<Segment>> create(Rank rank, const Geometry& geometry, UniqueFd* fd);
  // A peer's segment, as map_passed() maps it; refuses a header that is not `rank`'s or leads outside.
  static Result<std::shared_ptr<Segment>> open(int fd, uint64_t bytes, Rank rank);

  const Geometry& geometry() const { return geometry_; }
  Header& header() { return *reinterpret_cast<Header*>(map_.base()); }
  Pair& pair(uint32_t index) { return pairs_[index]; }
  AreaEntry* directory() { return reinterpret_cast<AreaEntry*>(map_.base() + geometry_.directory_offset); }
  std::byte* at(uint64_t offset) { return map_.base() + offset; }
  std::byte* slot(uint32_t index) { return slots_ + index * geometry_.slot_stride; }

  Segment(Mapping map, const Geometry& geometry)
      : map_(std::move(map)),
        geometry_(geometry),
        pairs_(reinterpret_cast<Pair*>(map_.base() + geometry.pairs_offset)),
        slots_(map_.base() + geometry.slots_offset) {}

 private:
  Mapping map_;
  Geometry geometry_;  // a private copy, checked once: the shared one is never used again
  Pair* pairs_;
  std::byte* slots_;
};

}  // namespace rondo::shm
