#include "transports/shm/shm.h"

#include <sys/epoll.h>
#include <unistd.h>

#include <algorithm>
#include <fstream>
#include <string>
#include <utility>

#include "base/check.h"
#include "transport/mesh.h"
#include "transports/shm/areas.h"
#include "transports/shm/endpoint.h"
#include "transports/shm/exchange.h"
#include "transports/shm/heap.h"

namespace rondo {
namespace {

using namespace shm;  // NOLINT: this file is the face of that namespace

// In calls of progress(). Death is the control plane's to find; this is a reserve.
constexpr uint32_t kLookAtSocketsEvery = 1024;

// What two ranks must have in common to reach each other's abstract sockets and map each other's memory.
std::string host_proof() {
  std::ifstream file("/proc/sys/kernel/random/boot_id");
  std::string boot;
  std::getline(file, boot);
  char link[64] = {};
  const ssize_t length = readlink("/proc/self/ns/net", link, sizeof link - 1);
  return fmt::format("{} {} {}", boot, std::string(link, length > 0 ? static_cast<size_t>(length) : 0), geteuid());
}

class ShmTransport final : public Transport {
 public:
  ShmTransport(const ShmOptions& options, std::unique_ptr<Listener> listener, UniqueFd epoll)
      : options_(options),
        listener_(std::move(listener)),
        epoll_(std::move(epoll)),
        host_(host_proof()),
        address_(host_ + "\n" + listener_->address()),
        endpoints_(options.identity.world),
        caps_{.lend = true,
              .slots = true,
              .multicast = true,
              .expose = false,
              .inject_bytes = kInlineBytes,
              .message_bytes = options.slot_bytes} {}
  ~ShmTransport() override;

  std::string_view name() const override { return "shm"; }
  const Caps& caps() const override { return caps_; }
  std::string address() const override { return address_; }
  Status reaches(std::string_view address) const override;
  Status connect(std::span<const Peer> peers, Deadline deadline) override;
  Endpoint* endpoint(Rank rank) override { return rank < endpoints_.size() ? endpoints_[rank].get() : nullptr; }

  bool progress(std::vector<Completion>& completions) override;
  int wait_fd() const override { return epoll_.get(); }
  bool arm() override;
  void disarm() override;

  Slot reserve(size_t bytes, uint32_t readers) override;
  void cancel(const Slot& slot) override { pool_->cancel(static_cast<uint32_t>(slot.handle)); }
  Result<std::unique_ptr<SharedArea>> share(uint64_t id, std::span<const Rank> members, size_t bytes,
                                            Writers writers) override;
  Result<void*> alloc(size_t bytes) override;
  Status free(void* memory) override;
  bool locate(const void* memory, size_t bytes, uint64_t* place) override {
    return heap_ != nullptr && own_ != nullptr && heap_->locate(static_cast<const std::byte*>(memory), bytes, place);
  }
  std::byte* view(Rank rank, uint64_t place, size_t bytes) override;
  Status part(void* memory, size_t bytes) override;

 private:
  void look_at_sockets();
  Status make_heap();

  ShmOptions options_;
  std::unique_ptr<Listener> listener_;  // until connect()
  UniqueFd epoll_;
  std::string host_;
  std::string address_;
  // Made by connect(), which knows how many peers there are; null before.
  std::shared_ptr<Segment> own_;
  std::unique_ptr<SlotPool> pool_;
  std::shared_ptr<AreaAllocator> areas_;
  std::vector<std::unique_ptr<ShmEndpoint>> endpoints_;  // by rank
  std::vector<ShmEndpoint*> connected_;
  Caps caps_;
  uint32_t sleep_ = 0;  // the value of the own `sleeping` word
  uint32_t calls_ = 0;
  // Made by connect(), or by an alloc() before it; null where there is no address space for it.
  std::shared_ptr<Heap> heap_;
  UniqueFd heap_fd_;  // until connect() has passed it on
};

Status ShmTransport::reaches(std::string_view address) const {
  const std::string_view theirs = address.substr(0, address.find('\n'));
  if (theirs == host_) return {};
  return fail(Code::unsupported, "shm: the peer is on '{}', this rank on '{}' (boot, network namespace, user)", theirs,
              host_);
}

Status ShmTransport::connect(std::span<const Peer> peers, Deadline deadline) {
  if (listener_ == nullptr) return fail(Code::invalid, "shm: connect was called before");
  const std::unique_ptr<Listener> listener = std::move(listener_);
  std::vector<std::string> addresses(options_.identity.world);
  for (const Peer& peer : peers) {
    if (peer.rank >= addresses.size()) return fail(Code::invalid, "shm: rank {} of {}", peer.rank, addresses.size());
    RONDO_TRY(reaches(peer.address));
    addresses[peer.rank] = peer.address.substr(peer.address.find('\n') + 1);
  }
  auto geometry = plan(options_.segment_bytes, options_.slot_bytes, static_cast<uint32_t>(peers.size()));
  if (!geometry.ok()) return geometry.status();
  // Without a heap everything is copied.
  const bool have_heap = heap_ != nullptr || make_heap().ok();
  UniqueFd memfd;  // only to pass it on, like the heap's
  const UniqueFd heap_fd = std::move(heap_fd_);
  auto own = Segment::create(options_.identity.rank, geometry.value(), &memfd);
  if (!own.ok()) return own.status();
  auto mesh = connect_mesh({.identity = options_.identity, .purpose = "shm", .streams = 1, .deadline = deadline},
                           *listener, addresses);
  if (!mesh.ok()) return mesh.status();
  auto links = exchange_segments(std::move(mesh).value(), **own,
                                 {.segment_fd = memfd.get(),
                                  .heap_fd = have_heap ? heap_fd.get() : -1,
                                  .heap_bytes = heap_ == nullptr ? 0 : heap_->bytes()},
                                 deadline);
  if (!links.ok()) return links.status();
  own_ = std::move(own).value();
  pool_ = std::make_unique<SlotPool>(*own_);
  areas_ = std::make_shared<AreaAllocator>(own_, heap_);
  for (Link& link : *links) {
    epoll_event event{.events = EPOLLIN | EPOLLRDHUP, .data = {.u32 = link.rank}};
    if (epoll_ctl(epoll_.get(), EPOLL_CTL_ADD, link.socket.get(), &event) != 0)
      return system_error(errno, "shm: epoll_ctl");
    const Rank rank = link.rank;
    endpoints_[rank] =
        std::make_unique<ShmEndpoint>(std::move(link), *own_, *pool_, options_.by_reference ? heap_.get() : nullptr);
    connected_.push_back(endpoints_[rank].get());
  }
  return {};
}

void ShmTransport::look_at_sockets() {
  epoll_event events[32];
  const int count = epoll_wait(epoll_.get(), events, 32, 0);
  for (int i = 0; i < count; ++i) {
    ShmEndpoint& endpoint = *endpoints_[events[i].data.u32];
    endpoint.read_socket();
    if (!endpoint.gone()) continue;
    epoll_ctl(epoll_.get(), EPOLL_CTL_DEL, endpoint.socket(), nullptr);  // it would be readable for ever
  }
}

bool ShmTransport::progress(std::vector<Completion>& completions) {
  bool any = false;
  for (ShmEndpoint* endpoint : connected_) any |= endpoint->progress(completions);
  if (pool_ != nullptr && pool_->starving()) any |= pool_->reclaim();
  if (++calls_ % kLookAtSocketsEvery == 0) look_at_sockets();
  return any;
}

bool ShmTransport::arm() {
  if (own_ == nullptr) return true;
  if ((sleep_ & 1) == 0) ++sleep_;
  // seq_cst: pairs with the load in Bell::ring_if_asleep(): a peer that published before it is seen below, one that
  // publishes after it sees this rank asleep and rings.
  own_->header().sleeping.value.store(sleep_, std::memory_order_seq_cst);
  bool any = false;
  for (ShmEndpoint* endpoint : connected_) any |= endpoint->look_before_sleep();
  const bool pending = std::any_of(connected_.begin(), connected_.end(), [](auto* e) { return e->pending(); });
  any |= (pending || pool_->starving()) && pool_->released();
  if (any) disarm();
  return !any;
}

void ShmTransport::disarm() {
  if ((sleep_ & 1) == 0) return;
  ++sleep_;
  // Relaxed: a peer that still sees the old value rings once too often.
  own_->header().sleeping.value.store(sleep_, std::memory_order_relaxed);
  look_at_sockets();
}

Slot ShmTransport::reserve(size_t bytes, uint32_t readers) {
  RONDO_CHECK(bytes <= options_.slot_bytes && readers >= 1);
  const int32_t slot = pool_ == nullptr ? -1 : pool_->take(readers);
  if (slot < 0) return {};
  return {own_->slot(static_cast<uint32_t>(slot)), options_.slot_bytes, static_cast<uint64_t>(slot)};
}

Result<std::unique_ptr<SharedArea>> ShmTransport::share(uint64_t id, std::span<const Rank> members, size_t bytes,
                                                        Writers writers) {
  if (areas_ == nullptr) return fail(Code::invalid, "shm: nothing is shared before connect");
  std::vector<AreaMember> sharing;
  for (const Rank rank : members) {
    if (rank == options_.identity.rank) {
      sharing.emplace_back();
    } else if (rank < endpoints_.size() && endpoints_[rank] != nullptr) {
      ShmEndpoint& endpoint = *endpoints_[rank];
      if (writers == Writers::members && (endpoint.heap() == nullptr || !endpoint.maps_heap()))
        return std::unique_ptr<SharedArea>();
      sharing.push_back({endpoint.segment(), endpoint.heap(), &endpoint.bell()});
    } else {
      return fail(Code::unsupported, "shm: rank {} is not connected, so that no memory is shared with it", rank);
    }
  }
  if (writers == Writers::members && heap_ == nullptr) return std::unique_ptr<SharedArea>();
  auto piece = areas_->open(id, bytes, writers);
  if (!piece.ok()) return piece.status();
  return make_area(areas_, piece.value(), sharing);
}

Status ShmTransport::make_heap() {
  auto made = Heap::create(&heap_fd_);
  if (!made.ok()) return made.status();
  heap_ = std::move(made).value();
  return {};
}

Result<void*> ShmTransport::alloc(size_t bytes) {
  if (heap_ == nullptr) RONDO_TRY(make_heap());
  if (own_ != nullptr) heap_fd_.reset();  // nobody is left to pass it to
  return heap_->alloc(bytes);
}

std::byte* ShmTransport::view(Rank rank, uint64_t place, size_t bytes) {
  const ShmEndpoint* peer = endpoints_[rank].get();
  if (peer == nullptr || peer->heap() == nullptr) return nullptr;
  const Mapping& heap = *peer->heap();
  return place > heap.bytes() || bytes > heap.bytes() - place ? nullptr : heap.base() + place;
}

Status ShmTransport::part(void* memory, size_t bytes) {
  uint64_t offset = 0;
  if (heap_ == nullptr || !heap_->inside(static_cast<const std::byte*>(memory), bytes, &offset))
    return fail(Code::invalid, "part: {} is in no allocation", memory);
  return heap_->part(offset, bytes);
}

Status ShmTransport::free(void* memory) {
  if (heap_ == nullptr) return fail(Code::invalid, "free: {} is not the start of an allocation", memory);
  return heap_->free(memory);
}

ShmTransport::~ShmTransport() {
  // What was accepted is delivered, or the peer is gone, or time is up.
  const Deadline deadline = Deadline::after_ms(options_.linger_ms);
  std::vector<Completion> none;
  const auto unsent = [&] {
    return std::any_of(connected_.begin(), connected_.end(), [](const ShmEndpoint* e) { return e->unsent(); });
  };
  while (unsent() && !deadline.passed()) {
    if (progress(none) || !arm()) continue;
    epoll_event event;
    epoll_wait(epoll_.get(), &event, 1, deadline.poll_ms(20));
    disarm();
  }
}

}  // namespace

Result<std::unique_ptr<Transport>> make_shm(const ShmOptions& options) {
  if (options.slot_bytes < kInlineBytes)
    return fail(Code::invalid, "shm: slots of {} bytes, expected at least {}", options.slot_bytes, kInlineBytes);
  // Whether the budget is enough for anything at all; connect() knows for how many peers.
  auto least = plan(options.segment_bytes, options.slot_bytes, 1);
  if (!least.ok()) return least.status();
  auto listener = Listener::unix_abstract();
  if (!listener.ok()) return listener.status();
  UniqueFd epoll(epoll_create1(EPOLL_CLOEXEC));
  if (!epoll) return system_error(errno, "shm: epoll_create1");
  return std::unique_ptr<Transport>(
      std::make_unique<ShmTransport>(options, std::move(listener).value(), std::move(epoll)));
}

}  // namespace rondo
