#include "transports/shm/areas.h"

#include <sys/mman.h>

#include <algorithm>

#include "base/check.h"

namespace rondo::shm {

namespace {

constexpr uint64_t kPage = 4096;
constexpr size_t kClosedKept = 256;
constexpr uint64_t kInHeapBit = uint64_t{1} << 63;  // of an entry's offset

constexpr uint64_t make_state(uint64_t number, AreaState state) { return number << 2 | static_cast<uint64_t>(state); }
constexpr AreaState state_of(uint64_t word) { return static_cast<AreaState>(word & 3); }

class ShmArea final : public SharedArea {
 public:
  ShmArea(std::shared_ptr<AreaAllocator> allocator, const AreaAllocator::Piece& piece,
          const std::vector<AreaMember>& members)
      : allocator_(std::move(allocator)), piece_(piece) {
    for (const AreaMember& member : members) {
      members_.push_back({.segment = member.segment, .heap = member.heap});
      if (member.bell != nullptr) bells_.push_back(member.bell);
    }
  }
  ~ShmArea() override { allocator_->close(piece_, settled_); }

  std::byte* mine() override { return allocator_->at(piece_); }
  const std::byte* of(uint32_t index) override { return piece(index); }
  std::byte* open(uint32_t index) override { return piece_.writers == Writers::members ? piece(index) : nullptr; }
  void populate() override {
    // Only time is lost where the kernel does not know the advice, or cannot follow it.
    const uint64_t begin = reinterpret_cast<uintptr_t>(mine()) / kPage * kPage;
    const uint64_t end = reinterpret_cast<uintptr_t>(mine()) + piece_.bytes;
    (void)madvise(reinterpret_cast<void*>(begin), end - begin, MADV_POPULATE_WRITE);
  }
  void settled() override { settled_ = true; }
  void wake() override {
    allocator_->mark_wake();
    for (Bell* bell : bells_) bell->ring_if_asleep();
  }

 private:
  struct Member {
    std::shared_ptr<Segment> segment;  // null: this rank
    std::shared_ptr<Mapping> heap;
    std::byte* piece = nullptr;  // written only where it lies in the heap
    uint32_t looked_at = 0;      // the directory's version at the last look in vain
  };

  std::byte* piece(uint32_t index) {
    Member& member = members_[index];
    if (member.segment == nullptr) return mine();
    if (member.piece == nullptr) look_up(member);
    return member.piece;
  }

  void look_up(Member& member) const {
    // Acquire: pairs with the release in AreaAllocator::write(); entries are at least as new as the version.
    const uint32_t version = member.segment->header().directory.value.load(std::memory_order_acquire);
    if (version == member.looked_at) return;
    for (uint32_t i = 0; i < kAreaEntries && member.piece == nullptr; ++i) {
      const AreaEntry& entry = member.segment->directory()[i];
      // Relaxed: only whether the entry has ever been used; entries are taken into use from the front.
      if (entry.state.load(std::memory_order_relaxed) == 0) break;
      member.piece = read(member, entry);
    }
    member.looked_at = version;
  }

  // The peer's directory may change under the look, and may hold anything: an entry counts only when its state is the
  // same before and after, and what it names lies inside.
  std::byte* read(const Member& peer, const AreaEntry& entry) const {
    // Acquire, all: pair with the release stores in AreaAllocator::write(). Fields of a later state imply a later state
    // in the second look.
    const uint64_t before = entry.state.load(std::memory_order_acquire);
    if (state_of(before) == AreaState::none) return nullptr;
    const uint64_t id = entry.id.load(std::memory_order_acquire);
    const uint64_t instance = entry.instance.load(std::memory_order_acquire);
    const uint64_t offset = entry.offset.load(std::memory_order_acquire);
    const uint64_t bytes = entry.bytes.load(std::memory_order_acquire);
    if (entry.state.load(std::memory_order_acquire) != before) return nullptr;
    if (id != piece_.id || instance != piece_.instance || bytes != piece_.bytes) return nullptr;
    const bool in_heap = piece_.writers == Writers::members;
    if (((offset & kInHeapBit) != 0) != in_heap) return nullptr;
    const uint64_t at = offset & ~kInHeapBit;
    if (at % kLine != 0) return nullptr;
    if (in_heap) return at > peer.heap->bytes() || bytes > peer.heap->bytes() - at ? nullptr : peer.heap->base() + at;
    const Geometry& g = peer.segment->geometry();
    if (at < g.areas_offset || at - g.areas_offset > g.areas_bytes) return nullptr;
    if (bytes > g.areas_bytes - (at - g.areas_offset)) return nullptr;
    return peer.segment->at(at);
  }

  std::shared_ptr<AreaAllocator> allocator_;
  AreaAllocator::Piece piece_;
  std::vector<Member> members_;
  std::vector<Bell*> bells_;
  bool settled_ = false;
};

}  // namespace

AreaAllocator::AreaAllocator(std::shared_ptr<Segment> own, std::shared_ptr<Heap> heap)
    : own_(std::move(own)), heap_(std::move(heap)) {}

bool AreaAllocator::place(uint64_t bytes, uint64_t* offset) {
  const Geometry& g = own_->geometry();
  if (bytes <= g.areas_bytes - used_) {
    *offset = g.areas_offset + used_;
    used_ += bytes;
    return true;
  }
  const auto hole = std::find_if(holes_.begin(), holes_.end(), [&](const Hole& h) { return h.bytes >= bytes; });
  if (hole == holes_.end()) return false;
  *offset = hole->offset;
  if (hole->bytes > bytes) {
    *hole = {hole->offset + bytes, hole->bytes - bytes};
  } else {
    holes_.erase(hole);
  }
  forget(*offset, bytes);
  std::fill_n(own_->at(*offset), bytes, std::byte{0});
  return true;
}

// Closed pieces that lie in a range which is used again can no longer be found.
void AreaAllocator::forget(uint64_t offset, uint64_t bytes) {
  for (Piece& piece : closed_) {
    if (piece.writers == Writers::members) continue;
    if (piece.offset >= offset + bytes || offset >= piece.offset + piece.bytes) continue;
    piece.bytes = 0;
    write(piece, AreaState::none);
  }
}

// Joins neighbours, which forgets who was closed first; only where no single hole is large enough.
void AreaAllocator::merge_holes() {
  std::sort(holes_.begin(), holes_.end(), [](const Hole& a, const Hole& b) { return a.offset < b.offset; });
  std::deque<Hole> merged;
  for (const Hole& hole : holes_) {
    if (!merged.empty() && merged.back().offset + merged.back().bytes == hole.offset) {
      merged.back().bytes += hole.bytes;
    } else {
      merged.push_back(hole);
    }
  }
  holes_ = std::move(merged);
}

void AreaAllocator::write(const Piece& piece, AreaState state) {
  AreaEntry& entry = own_->directory()[piece.entry];
  // Relaxed: this rank is the only writer.
  const uint64_t number = (entry.state.load(std::memory_order_relaxed) >> 2) + 1;
  // Release, all: pair with the acquire loads in ShmArea::read(). The entry counts as none while its fields change.
  entry.state.store(make_state(number, AreaState::none), std::memory_order_release);
  entry.id.store(piece.id, std::memory_order_release);
  entry.instance.store(piece.instance, std::memory_order_release);
  entry.offset.store(piece.writers == Writers::members ? piece.offset | kInHeapBit : piece.offset,
                     std::memory_order_release);
  entry.bytes.store(piece.bytes, std::memory_order_release);
  entry.state.store(make_state(number + 1, state), std::memory_order_release);
  // Release: pairs with the acquire in ShmArea::look_up(), which then sees the entry.
  own_->header().directory.value.fetch_add(1, std::memory_order_release);
}

Status AreaAllocator::find_room(Piece& piece) {
  if (piece.writers == Writers::members) {
    if (heap_ == nullptr) return fail(Code::unsupported, "shm: no memory that all members can write");
    auto memory = heap_->alloc(piece.bytes);
    if (!memory.ok()) return memory.status();
    piece.offset = static_cast<uint64_t>(static_cast<std::byte*>(*memory) - heap_->at(0));
    return {};
  }
  const Geometry& g = own_->geometry();
  if (piece.bytes > g.areas_bytes)
    return fail(Code::no_memory, "shm: an area of {} bytes, all areas have {} (RONDO_SHM_BYTES)", piece.bytes,
                g.areas_bytes);
  if (place(piece.bytes, &piece.offset)) return {};
  merge_holes();
  if (place(piece.bytes, &piece.offset)) return {};
  return fail(Code::no_memory, "shm: no room for an area of {} bytes in {} bytes of areas (RONDO_SHM_BYTES)",
              piece.bytes, g.areas_bytes);
}

Result<AreaAllocator::Piece> AreaAllocator::open(uint64_t id, size_t bytes, Writers writers) {
  // Counted first: a rank that has no room stays in step with the others.
  Piece piece{.id = id, .instance = instances_[id]++, .writers = writers};
  if (fresh_entry_ == kAreaEntries && closed_.empty())
    return fail(Code::no_memory, "shm: {} shared areas are open, the directory has no room for more", kAreaEntries);
  piece.bytes = std::max<uint64_t>((bytes + kLine - 1) / kLine * kLine, kLine);
  RONDO_TRY(find_room(piece));
  // A few hundred closed entries give a late member ample time to find them; beyond that the look-up would grow long.
  if (fresh_entry_ == kAreaEntries || closed_.size() >= kClosedKept) {
    piece.entry = closed_.front().entry;
    closed_.pop_front();
  } else {
    piece.entry = fresh_entry_++;
  }
  write(piece, AreaState::open);
  return piece;
}

void AreaAllocator::close(const Piece& piece, bool settled) {
  const bool in_heap = piece.writers == Writers::members;
  write(piece, in_heap && settled ? AreaState::none : AreaState::closed);
  closed_.push_back(piece);
  if (!in_heap) {
    holes_.push_back({piece.offset, piece.bytes});
  } else if (settled) {
    const Status freed = heap_->free(heap_->at(piece.offset));
    RONDO_CHECK(freed.ok());
  }
}

std::unique_ptr<SharedArea> make_area(std::shared_ptr<AreaAllocator> allocator, const AreaAllocator::Piece& piece,
                                      const std::vector<AreaMember>& members) {
  return std::make_unique<ShmArea>(std::move(allocator), piece, members);
}

}  // namespace rondo::shm
