#include "transports/shm/segment.h"

#include <fcntl.h>
#include <linux/magic.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/vfs.h>

#include <cerrno>
#include <cstring>
#include <utility>

namespace rondo::shm {

namespace {

constexpr int kSizeSeals = F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL;
constexpr uint64_t kMaxSegmentBytes = uint64_t{1} << 46;

// A peer may pass anything: only ordinary memory whose size cannot change any more is safe to touch. Huge-page files
// are refused, because their faults can fail.
Status check_descriptor(int fd, uint64_t bytes) {
  const int seals = fcntl(fd, F_GET_SEALS);
  if (seals < 0) return system_error(errno, "shm: the descriptor that was passed is no memfd");
  if ((seals & kSizeSeals) != kSizeSeals)
    return fail(Code::peer, "shm: the size of the memory that was passed is not sealed (seals {:#x})", seals);
  struct stat info;
  if (fstat(fd, &info) != 0) return system_error(errno, "shm: fstat of the memory that was passed");
  if (bytes == 0 || bytes > kMaxSegmentBytes || static_cast<uint64_t>(info.st_size) != bytes)
    return fail(Code::peer, "shm: {} bytes of memory were announced and {} passed", bytes, info.st_size);
  struct statfs system;
  if (fstatfs(fd, &system) != 0) return system_error(errno, "shm: fstatfs of the memory that was passed");
  if (system.f_type != TMPFS_MAGIC)
    return fail(Code::peer, "shm: the memory that was passed is of file system type {:#x}, not ordinary memory",
                static_cast<unsigned long>(system.f_type));
  return {};
}

}  // namespace

Mapping::Mapping(Mapping&& other) noexcept
    : base_(std::exchange(other.base_, nullptr)), bytes_(std::exchange(other.bytes_, 0)) {}

Mapping& Mapping::operator=(Mapping&& other) noexcept {
  std::swap(base_, other.base_);
  std::swap(bytes_, other.bytes_);
  return *this;
}

Mapping::~Mapping() {
  if (base_ != nullptr) munmap(base_, bytes_);
}

Result<UniqueFd> make_memfd(const char* name, size_t bytes) {
  rlimit limit;
  if (getrlimit(RLIMIT_FSIZE, &limit) == 0 && limit.rlim_cur != RLIM_INFINITY && bytes > limit.rlim_cur)
    return fail(Code::no_memory, "shm: {} bytes of shared memory exceed the file size limit of {}", bytes,
                limit.rlim_cur);
  UniqueFd fd(memfd_create(name, MFD_CLOEXEC | MFD_ALLOW_SEALING));
  if (!fd) return system_error(errno, "shm: memfd_create");
  if (ftruncate(fd.get(), static_cast<off_t>(bytes)) != 0)
    return system_error(errno, fmt::format("shm: ftruncate of a memfd to {} bytes", bytes));
  return fd;
}

Status seal_size(int fd) {
  if (fcntl(fd, F_ADD_SEALS, kSizeSeals) != 0) return system_error(errno, "shm: sealing a memfd");
  return {};
}

Result<Mapping> map_passed(int fd, uint64_t bytes, Access access) {
  RONDO_TRY(check_descriptor(fd, bytes));
  const int protection = access == Access::read ? PROT_READ : PROT_READ | PROT_WRITE;
  void* base = mmap(nullptr, bytes, protection, MAP_SHARED | MAP_NORESERVE, fd, 0);
  if (base == MAP_FAILED) return system_error(errno, fmt::format("shm: mmap of a peer's {} bytes", bytes));
  return Mapping(static_cast<std::byte*>(base), bytes);
}

Result<std::shared_ptr<Segment>> Segment::create(Rank rank, const Geometry& geometry, UniqueFd* fd) {
  Result<UniqueFd> made = make_memfd("rondo", geometry.segment_bytes);
  if (!made.ok()) return made.status();
  const int raw = made->get();
  void* base = mmap(nullptr, geometry.segment_bytes, PROT_READ | PROT_WRITE, MAP_SHARED, raw, 0);
  if (base == MAP_FAILED)
    return system_error(errno, fmt::format("shm: mmap of a segment of {} bytes", geometry.segment_bytes));
  auto segment = std::make_shared<Segment>(Mapping(static_cast<std::byte*>(base), geometry.segment_bytes), geometry);
  // From here on nobody else can map it for writing; a kernel before 5.1 does not know the seal, and all else holds.
  fcntl(raw, F_ADD_SEALS, F_SEAL_FUTURE_WRITE);
  RONDO_TRY(seal_size(raw));
  segment->header().title = {.rank = rank, .geometry = geometry};
  *fd = std::move(made).value();
  return segment;
}

Result<std::shared_ptr<Segment>> Segment::open(int fd, uint64_t bytes, Rank rank) {
  if (bytes < sizeof(Header)) return fail(Code::peer, "shm: rank {}'s segment has {} bytes", rank, bytes);
  Result<Mapping> map = map_passed(fd, bytes, Access::read);
  if (!map.ok()) return map.status();
  Title title;
  std::memcpy(&title, map->base(), sizeof title);
  if (title.magic != kMagic || title.layout_version != kLayoutVersion)
    return fail(Code::peer, "shm: rank {}'s segment has layout {:#x} version {}, here it is {:#x} version {}", rank,
                title.magic, title.layout_version, kMagic, kLayoutVersion);
  if (title.rank != rank) return fail(Code::peer, "shm: rank {} passed the segment of rank {}", rank, title.rank);
  RONDO_TRY(check(title.geometry, bytes));
  return std::make_shared<Segment>(std::move(map).value(), title.geometry);
}

}  // namespace rondo::shm
