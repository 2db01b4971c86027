#include "transports/shm/heap.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/sysinfo.h>

#include <algorithm>
#include <cerrno>
#include <iterator>
#include <utility>

#include "base/check.h"

namespace rondo::shm {

namespace {

constexpr uint64_t kPage = 4096;
constexpr uint64_t kLeastBytes = uint64_t{64} << 20;
constexpr uint64_t kMostBytes = uint64_t{1} << 40;  // so that the heaps of a hundred peers fit an address space

constexpr uint64_t down(uint64_t value) { return value / kPage * kPage; }
constexpr uint64_t up(uint64_t value) { return down(value + kPage - 1); }

// Memory and swap.
uint64_t memory_of_host() {
  struct sysinfo info;
  if (sysinfo(&info) != 0) return kMostBytes;
  return (static_cast<uint64_t>(info.totalram) + info.totalswap) * info.mem_unit;
}

}  // namespace

Result<std::shared_ptr<Heap>> Heap::create(UniqueFd* fd) {
  rlimit limit;
  uint64_t bytes = std::clamp(up(memory_of_host()), kLeastBytes, kMostBytes);
  if (getrlimit(RLIMIT_FSIZE, &limit) == 0 && limit.rlim_cur != RLIM_INFINITY)
    bytes = std::min<uint64_t>(bytes, down(limit.rlim_cur));
  // Only address space is at stake here: where that is limited, a smaller heap will do.
  for (; bytes >= kLeastBytes; bytes = down(bytes / 2)) {
    Result<UniqueFd> made = make_memfd("rondo-heap", bytes);
    if (!made.ok()) return made.status();
    void* base = mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_NORESERVE, made->get(), 0);
    if (base == MAP_FAILED) continue;
    auto heap = std::make_shared<Heap>(Mapping(static_cast<std::byte*>(base), bytes));
    RONDO_TRY(seal_size(made->get()));
    *fd = std::move(made).value();
    return heap;
  }
  return fail(Code::no_memory,
              "shm: neither address space nor file size limit allow {} bytes of memory for allocations", kLeastBytes);
}

bool Heap::carve(uint64_t bytes, uint64_t* offset) {
  const auto fit = std::find_if(room_.begin(), room_.end(), [&](const auto& range) { return range.second >= bytes; });
  if (fit == room_.end()) return false;
  *offset = fit->first;
  const uint64_t rest = fit->second - bytes;
  room_.erase(fit);
  if (rest > 0) room_.emplace(*offset + bytes, rest);
  return true;
}

void Heap::give_room(uint64_t offset, uint64_t bytes) {
  auto next = room_.lower_bound(offset);
  if (next != room_.end() && offset + bytes == next->first) {
    bytes += next->second;
    next = room_.erase(next);
  }
  if (next != room_.begin()) {
    const auto previous = std::prev(next);
    if (previous->first + previous->second == offset) {
      previous->second += bytes;
      return;
    }
  }
  room_.emplace(offset, bytes);
}

Result<void*> Heap::alloc(size_t bytes) {
  if (bytes > map_.bytes())
    return fail(Code::no_memory, "shm: {} bytes were asked for, this rank can have {}", bytes, map_.bytes());
  const uint64_t rounded = up(std::max<size_t>(bytes, 1));
  uint64_t offset = 0;
  if (!carve(rounded, &offset))
    return fail(Code::no_memory, "shm: no room for {} bytes in {} with {} allocations", bytes, map_.bytes(),
                blocks_.size());
  blocks_.emplace(offset, Block{.bytes = rounded});
  return static_cast<void*>(map_.base() + offset);
}

Status Heap::free(void* memory) {
  const auto block = blocks_.find(static_cast<uint64_t>(static_cast<std::byte*>(memory) - map_.base()));
  if (block == blocks_.end()) return fail(Code::invalid, "free: {} is not the start of an allocation", memory);
  if (block->second.holds > 0)
    return fail(Code::invalid, "free: {} is still being sent ({} messages)", memory, block->second.holds);
  // Punches a hole (which a seal against writing would forbid): the pages go back to the system, and read as zero from
  // now on.
  if (madvise(memory, block->second.bytes, MADV_REMOVE) != 0)
    std::fill_n(static_cast<std::byte*>(memory), block->second.bytes, std::byte{0});
  // Addresses that show another range of the file must not name this one again.
  if (!block->second.parted) give_room(block->first, block->second.bytes);
  blocks_.erase(block);
  return {};
}

Heap::Blocks::iterator Heap::block_at(uint64_t offset) {
  auto block = blocks_.upper_bound(offset);
  RONDO_CHECK(block != blocks_.begin());
  return --block;
}

const std::pair<const uint64_t, Heap::Block>* Heap::block_of(const std::byte* data, size_t bytes,
                                                             uint64_t* offset) const {
  const auto at = static_cast<uint64_t>(reinterpret_cast<uintptr_t>(data) - reinterpret_cast<uintptr_t>(map_.base()));
  if (at >= map_.bytes() || blocks_.empty()) return nullptr;
  const auto after = blocks_.upper_bound(at);
  if (after == blocks_.begin()) return nullptr;
  const auto block = std::prev(after);
  const uint64_t end = block->first + block->second.bytes;
  if (at > end || bytes > end - at) return nullptr;
  *offset = at;
  return &*block;
}

bool Heap::inside(const std::byte* data, size_t bytes, uint64_t* offset) const {
  return block_of(data, bytes, offset) != nullptr;
}

bool Heap::locate(const std::byte* data, size_t bytes, uint64_t* offset) const {
  const auto* block = block_of(data, bytes, offset);
  return block != nullptr && !block->second.parted;
}

// The copy is made in a fresh range of the heap, whose mapping then moves over the old addresses; the fresh range's own
// addresses are never used again.
Status Heap::part(uint64_t offset, size_t bytes) {
  const uint64_t first = down(offset);
  const uint64_t length = up(offset + bytes) - first;
  uint64_t fresh = 0;
  if (!carve(length, &fresh)) return fail(Code::no_memory, "shm: no room for a copy of {} bytes being sent", length);
  std::byte* from = map_.base() + first;
  std::byte* to = map_.base() + fresh;
  std::copy_n(from, length, to);
  if (mremap(to, length, length, MREMAP_MAYMOVE | MREMAP_FIXED, from) == MAP_FAILED)
    return system_error(errno, "shm: mremap of memory being sent");
  block_at(offset)->second.parted = true;
  return {};
}

}  // namespace rondo::shm
