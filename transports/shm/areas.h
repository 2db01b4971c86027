// Areas: the pieces of shared areas that this rank owns, and the look-up of the peers' pieces. Pieces that only their
// owner writes lie in its segment, those that all members write in its heap; the segment's directory names both. Lease
// holder only.
#pragma once

#include <cstdint>
#include <deque>
#include <map>
#include <memory>
#include <vector>

#include "transport/contract.h"
#include "transports/shm/bell.h"
#include "transports/shm/heap.h"
#include "transports/shm/segment.h"

namespace rondo::shm {

// Hands out pieces and announces them in the segment's directory. A closed piece stays readable, and can still be found
// by a member that is late, until its room is wanted: the longest closed go first. A closed piece of the heap is given
// back at once when its members are done with it, else never.
class AreaAllocator {
 public:
  // `heap`: null where there is none.
  AreaAllocator(std::shared_ptr<Segment> own, std::shared_ptr<Heap> heap);

  struct Piece {
    uint64_t id = 0;
    uint64_t instance = 0;  // how often this id had been shared before
    uint64_t offset = 0;    // in the segment or the heap
    uint64_t bytes = 0;
    uint32_t entry = 0;
    Writers writers = Writers::owner;  // members: in the heap
  };
  Result<Piece> open(uint64_t id, size_t bytes, Writers writers);
  void close(const Piece& piece, bool settled);
  std::byte* at(const Piece& piece) const {
    return piece.writers == Writers::members ? heap_->at(piece.offset) : own_->at(piece.offset);
  }
  const std::shared_ptr<Segment>& segment() const { return own_; }
  // To be called between a store to an area and the looks at the peers' `sleeping` words.
  void mark_wake() {
    // seq_cst: pairs with the load in ShmEndpoint::look_before_sleep(). Either that load sees this store, and with it
    // what was written before, or the looks that follow see the sleeper.
    own_->header().wakes.value.store(++wakes_, std::memory_order_seq_cst);
  }

 private:
  struct Hole {
    uint64_t offset, bytes;
  };
  Status find_room(Piece& piece);
  bool place(uint64_t bytes, uint64_t* offset);
  void merge_holes();
  void forget(uint64_t offset, uint64_t bytes);
  void write(const Piece& piece, AreaState state);

  std::shared_ptr<Segment> own_;
  std::shared_ptr<Heap> heap_;
  uint64_t used_ = 0;       // of the areas' room; what lies beyond has never been used
  std::deque<Hole> holes_;  // closed pieces, oldest first: used again only when nothing fresh is left
  uint32_t fresh_entry_ = 0;
  std::deque<Piece> closed_;  // their entries can still be found; oldest first
  std::map<uint64_t, uint64_t> instances_;
  uint32_t wakes_ = 0;
};

struct AreaMember {
  std::shared_ptr<Segment> segment;  // null for this rank itself
  std::shared_ptr<Mapping> heap;     // the member's, mapped here; null: not mapped, or this rank itself
  Bell* bell = nullptr;              // of the endpoint to the member; used by wake() alone
};

// One area: the own piece and the peers', in the order of the members.
std::unique_ptr<SharedArea> make_area(std::shared_ptr<AreaAllocator> allocator, const AreaAllocator::Piece& piece,
                                      const std::vector<AreaMember>& members);

}  // namespace rondo::shm
