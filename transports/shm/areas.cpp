#include "transports/shm/areas.h"

#include <algorithm>

namespace rondo::shm {

namespace {

constexpr uint64_t make_state(uint64_t number, AreaState state) { return number << 2 | static_cast<uint64_t>(state); }
constexpr AreaState state_of(uint64_t word) { return static_cast<AreaState>(word & 3); }

class ShmArea final : public SharedArea {
 public:
  ShmArea(std::shared_ptr<AreaAllocator> allocator, const AreaAllocator::Piece& piece,
          std::vector<std::shared_ptr<Segment>> segments)
      : allocator_(std::move(allocator)), piece_(piece), segments_(std::move(segments)), found_(segments_.size()) {}
  ~ShmArea() override { allocator_->close(piece_); }

  std::byte* mine() override { return allocator_->segment()->at(piece_.offset); }
  const std::byte* of(uint32_t index) override {
    if (segments_[index] == nullptr) return mine();
    if (found_[index] == nullptr) found_[index] = look_up(*segments_[index]);
    return found_[index];
  }

 private:
  // The peer's directory may change under the look, and may hold anything: an entry counts only when its state is the
  // same before and after, and what it names lies inside.
  const std::byte* look_up(Segment& peer) const {
    const Geometry& g = peer.geometry();
    for (uint32_t i = 0; i < kAreaEntries; ++i) {
      const AreaEntry& entry = peer.directory()[i];
      // Acquire: pairs with the release store in AreaAllocator::write(); the fields are those of this state or a later
      // one.
      const uint64_t before = entry.state.load(std::memory_order_acquire);
      if (before == 0) return nullptr;  // entries are filled from the front
      if (state_of(before) != AreaState::open) continue;
      const uint64_t id = entry.id.load(std::memory_order_acquire);
      const uint64_t instance = entry.instance.load(std::memory_order_acquire);
      const uint64_t offset = entry.offset.load(std::memory_order_acquire);
      const uint64_t bytes = entry.bytes.load(std::memory_order_acquire);
      if (entry.state.load(std::memory_order_acquire) != before) continue;
      if (id != piece_.id || instance != piece_.instance || bytes < piece_.bytes) continue;
      if (offset % kLine != 0 || offset < g.areas_offset || offset - g.areas_offset > g.areas_bytes ||
          bytes > g.areas_bytes - (offset - g.areas_offset))
        continue;
      return peer.at(offset);
    }
    return nullptr;
  }

  std::shared_ptr<AreaAllocator> allocator_;
  AreaAllocator::Piece piece_;
  std::vector<std::shared_ptr<Segment>> segments_;
  std::vector<const std::byte*> found_;
};

}  // namespace

AreaAllocator::AreaAllocator(std::shared_ptr<Segment> own) : own_(std::move(own)) {
  for (uint32_t i = kAreaEntries; i > 0; --i) free_entries_.push_back(i - 1);
}

Result<uint64_t> AreaAllocator::place(uint64_t bytes) {
  const Geometry& g = own_->geometry();
  if (bytes <= g.areas_bytes - used_) {
    const uint64_t offset = g.areas_offset + used_;
    used_ += bytes;
    return offset;
  }
  // A peer may still look at a closed piece: the one that was closed longest ago is the safest.
  const auto hole = std::find_if(holes_.begin(), holes_.end(), [&](const Hole& h) { return h.bytes >= bytes; });
  if (hole == holes_.end())
    return fail(Code::no_memory, "shm: no room for an area of {} bytes: {} of {} bytes are in use (RONDO_SHM_BYTES)",
                bytes, used_, g.areas_bytes);
  const uint64_t offset = hole->offset;
  if (hole->bytes > bytes) {
    *hole = {hole->offset + bytes, hole->bytes - bytes};
  } else {
    holes_.erase(hole);
  }
  std::fill_n(own_->at(offset), bytes, std::byte{0});
  return offset;
}

void AreaAllocator::write(const Piece& piece, AreaState state) {
  AreaEntry& entry = own_->directory()[piece.entry];
  const uint64_t number = (entry.state.load(std::memory_order_relaxed) >> 2) + 1;
  // Release, all: pair with the acquire loads in look_up(). The entry is closed while its fields change.
  entry.state.store(make_state(number, AreaState::closed), std::memory_order_release);
  entry.id.store(piece.id, std::memory_order_release);
  entry.instance.store(piece.instance, std::memory_order_release);
  entry.offset.store(piece.offset, std::memory_order_release);
  entry.bytes.store(piece.bytes, std::memory_order_release);
  entry.state.store(make_state(number + 1, state), std::memory_order_release);
}

Result<AreaAllocator::Piece> AreaAllocator::open(uint64_t id, size_t bytes) {
  if (free_entries_.empty())
    return fail(Code::no_memory, "shm: {} shared areas are open, no more fit the directory", kAreaEntries);
  Piece piece{.id = id, .bytes = (bytes + kLine - 1) / kLine * kLine};
  const auto offset = place(piece.bytes);
  if (!offset.ok()) return offset.status();
  piece.offset = offset.value();
  piece.instance = instances_[id]++;
  piece.entry = free_entries_.back();
  free_entries_.pop_back();
  write(piece, AreaState::open);
  return piece;
}

void AreaAllocator::close(const Piece& piece) {
  write(piece, AreaState::closed);
  free_entries_.push_back(piece.entry);
  holes_.push_back({piece.offset, piece.bytes});
}

std::unique_ptr<SharedArea> make_area(std::shared_ptr<AreaAllocator> allocator, const AreaAllocator::Piece& piece,
                                      std::vector<std::shared_ptr<Segment>> segments) {
  return std::make_unique<ShmArea>(std::move(allocator), piece, std::move(segments));
}

}  // namespace rondo::shm
