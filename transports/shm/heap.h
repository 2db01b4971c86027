// Heap: memory that peers read and write where it lies, for the user (rondo_alloc) and for shared areas that all
// members write: one sparse memfd, mapped whole by its owner and by every peer, so that an offset names the same bytes
// everywhere. Memory is taken from the system on first use and given back by free(). Lease holder only.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>

#include "base/fd.h"
#include "base/status.h"
#include "transports/shm/segment.h"

namespace rondo::shm {

class Heap {
 public:
  // As large as the host's memory, or as address space allows. `*fd` gets the memfd to pass on.
  static Result<std::shared_ptr<Heap>> create(UniqueFd* fd);

  // Whole pages, zeroed. no_memory: more than the host has, or no room.
  Result<void*> alloc(size_t bytes);
  // invalid: not the start of an allocation, or peers still read in it.
  Status free(void* memory);

  size_t bytes() const { return map_.bytes(); }
  std::byte* at(uint64_t offset) const { return map_.base() + offset; }
  // Whether `data` lies in one allocation, and where in the memfd.
  bool inside(const std::byte* data, size_t bytes, uint64_t* offset) const;
  // The same for one that peers may read and write in place: no part of it has been taken from them.
  bool locate(const std::byte* data, size_t bytes, uint64_t* offset) const;
  // A peer begins, or has ended, to read at an offset that locate() has given.
  void hold(uint64_t offset) { ++block_at(offset)->second.holds; }
  void unhold(uint64_t offset) { --block_at(offset)->second.holds; }
  // Gives the pages of a range that peers read to them alone: the owner's addresses get a copy, and what is written
  // there from now on is not seen by them. The allocation is not read in place any more.
  Status part(uint64_t offset, size_t bytes);

  explicit Heap(Mapping map) : map_(std::move(map)), room_{{0, map_.bytes()}} {}

 private:
  struct Block {
    uint64_t bytes = 0;
    uint32_t holds = 0;
    bool parted = false;  // some of its addresses no longer show the memfd's range of the same offset
  };
  using Blocks = std::map<uint64_t, Block>;

  const std::pair<const uint64_t, Block>* block_of(const std::byte* data, size_t bytes, uint64_t* offset) const;
  Blocks::iterator block_at(uint64_t offset);
  bool carve(uint64_t bytes, uint64_t* offset);
  void give_room(uint64_t offset, uint64_t bytes);

  Mapping map_;
  Blocks blocks_;                      // by offset
  std::map<uint64_t, uint64_t> room_;  // free ranges: offset, bytes
};

}  // namespace rondo::shm
