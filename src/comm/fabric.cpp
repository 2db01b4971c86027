#include "comm/fabric.h"

#include <poll.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <optional>

#include <fmt/core.h>

#include "base/check.h"
#include "comm/abort_text.h"

namespace rondo {
namespace {

// Watches `fd` for reading; transports without a descriptor (-1) are polled.
Status watch_fd(int epoll, int fd) {
  if (fd < 0) return {};
  epoll_event event{.events = EPOLLIN, .data = {.fd = fd}};
  if (epoll_ctl(epoll, EPOLL_CTL_ADD, fd, &event) != 0) return system_error(errno, "epoll_ctl");
  return {};
}

}  // namespace

Result<std::shared_ptr<Fabric>> Fabric::create(FabricOptions options) {
  std::shared_ptr<Fabric> fabric(new Fabric(std::move(options)));
  RONDO_TRY(fabric->connect());
  RONDO_TRY(fabric->open_descriptors());
  fabric->thread_ = std::thread([raw = fabric.get()] { raw->run_thread(); });
  return fabric;
}

Status Fabric::open_descriptors() {
  epoll_.reset(epoll_create1(EPOLL_CLOEXEC));
  doorbell_.reset(eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK));
  thread_bell_.reset(eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK));
  if (!epoll_ || !doorbell_ || !thread_bell_)
    return system_error(errno, "open the fabric's descriptors (the limit on open files is `ulimit -n`)");
  RONDO_TRY(watch_fd(epoll_.get(), doorbell_.get()));
  if (control_) RONDO_TRY(watch_fd(epoll_.get(), control_->wait_fd()));
  for (const auto& transport : transports_) RONDO_TRY(watch_fd(epoll_.get(), transport->wait_fd()));
  // A page that reads as zero in a fork: the child must not drive what the parent owns.
  fork_mark_ = mmap(nullptr, 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (fork_mark_ == MAP_FAILED) {
    fork_mark_ = nullptr;
    return system_error(errno, "mmap");
  }
  *static_cast<char*>(fork_mark_) = 1;
  if (madvise(fork_mark_, 4096, MADV_WIPEONFORK) != 0) options_.log.info("forks are not noticed: madvise failed");
  return {};
}

Fabric::~Fabric() {
  if (forked()) {
    // The thread and the peers belong to the parent: leave everything as it is.
    thread_.detach();
    for (auto& transport : transports_) (void)transport.release();
    (void)control_.release();
    (void)executor_.release();
    return;
  }
  stop_.store(true, std::memory_order_release);  // pairs with the acquire in run_thread()
  if (thread_bell_) ring(thread_bell_);
  if (thread_.joinable()) thread_.join();
  if (control_) {
    for (Rank rank = 0; rank < world(); ++rank)
      if (rank != this->rank()) control_->send(rank, {.kind = ControlKind::goodbye, .from = this->rank()});
    const Deadline deadline = Deadline::after_ms(1000);
    while (!control_->flushed() && !deadline.passed()) {
      messages_.clear();
      if (control_->progress(messages_)) continue;
      pollfd waiting{.fd = control_->wait_fd(), .events = POLLIN, .revents = 0};
      ::poll(&waiting, 1, 1);  // what is unsent waits for room, which rings nobody: a look every millisecond
    }
  }
  executor_.reset();
  groups_.clear();
  transports_.clear();
  control_.reset();
  if (fork_mark_ != nullptr) munmap(fork_mark_, 4096);
}

Result<std::shared_ptr<Group>> Fabric::make_group(uint32_t id, std::vector<Rank> ranks) {
  auto group = std::make_shared<Group>();
  group->id = id;
  group->chain = id;
  std::vector<Rank> near;  // members that share memory with this rank
  std::vector<int> near_index(ranks.size(), -1);
  Transport* shared = nullptr;
  for (uint32_t i = 0; i < ranks.size(); ++i) {
    group->members.push_back(links_[ranks[i]]);
    group->members.back().fabric_rank = ranks[i];
    if (ranks[i] == rank()) group->rank = i;
    if (group->members.back().transport != nullptr && group->members.back().transport->name() == "shm")
      shared = group->members.back().transport;
  }
  for (uint32_t i = 0; i < ranks.size() && shared != nullptr; ++i) {
    if (ranks[i] != rank() && group->members[i].transport != shared) continue;
    near_index[i] = static_cast<int>(near.size());
    near.push_back(ranks[i]);
  }
  LeaseHold hold(*this);
  std::unique_ptr<SharedArea> board_area;
  Areas areas{.transport = shared};
  if (shared != nullptr) {
    auto board = shared->share(uint64_t{id} << 8 | 1, near, CallBoard::area_bytes(), Writers::owner);
    if (!board.ok()) return board.status();
    board_area = std::move(board).value();
    if (near.size() == ranks.size()) {
      auto cells = shared->share(uint64_t{id} << 8 | 2, near, Cells::area_bytes(group->world()), Writers::owner);
      if (!cells.ok()) return cells.status();
      areas.cells = std::move(cells).value();
      // Whether this rank has one is said on the board: without it on every rank there is none.
      auto workspace = shared->share(uint64_t{id} << 8 | 3, near, sizeof(Workspace), Writers::members);
      if (workspace.ok()) areas.workspace = std::move(workspace).value();
    }
  }
  group->board = std::make_unique<CallBoard>(group->world(), group->rank, std::move(board_area), std::move(near_index));
  // Listed from here on: what others say of the group while it is being made is not lost.
  groups_.push_back(group);
  const Status shared_out = share_memory(*group, std::move(areas));
  if (shared_out.ok()) return group;
  fail_locked(*group, shared_out, group->rank, true);
  std::erase(groups_, group);
  return shared_out;
}

// Waits until every member that shares memory has made its pieces and has found this rank's: a member that leaves right
// afterwards leaves them readable.
Status Fabric::share_memory(Group& group, Areas areas) {
  const Deadline deadline = Deadline::after_ms(options_.config.milliseconds(Key::join_timeout_ms));
  std::vector<const std::byte*> pieces(group.world());
  // A member that leaves may do so because of another: the control plane has a moment to name the first cause.
  std::optional<Deadline> moment;
  const auto await = [&](Rank member, auto&& ready) -> Status {
    while (!ready()) {
      if (deadline.passed())
        return fail(Code::timeout, "rank {} has not made its part of communicator {} within {} ms", member, group.id,
                    options_.config.milliseconds(Key::join_timeout_ms));
      pass();
      control_pass();
      if (!group.broken.ok()) return group.broken;
      const Status& link = group.members[member].endpoint->status();
      if (!link.ok() && !ready()) {
        if (!moment) moment = Deadline::after_ms(kCauseWaitMs);
        if (moment->passed()) return link;
      }
      lease_.hand_over();
    }
    return {};
  };
  using Verdict = CallBoard::Verdict;
  bool all_write = areas.workspace != nullptr;
  group.board->say_workspace(all_write ? Verdict::there : Verdict::lacking);
  for (Rank member = 0; member < group.world(); ++member) {
    if (!group.board->shares(member) || member == group.rank) continue;
    RONDO_TRY(await(member, [&] { return group.board->found(member); }));
    if (areas.cells == nullptr) continue;
    RONDO_TRY(await(member, [&] { return areas.cells->of(member) != nullptr; }));
    RONDO_TRY(await(member, [&] { return group.board->workspace_of(member) != Verdict::unsaid; }));
    all_write = all_write && group.board->workspace_of(member) == Verdict::there;
  }
  for (Rank member = 0; member < group.world() && all_write; ++member)
    if (member != group.rank) RONDO_TRY(await(member, [&] { return areas.workspace->of(member) != nullptr; }));
  group.board->set_ready();
  for (Rank member = 0; member < group.world(); ++member)
    if (group.board->shares(member) && member != group.rank)
      RONDO_TRY(await(member, [&] { return group.board->ready(member); }));
  if (areas.cells == nullptr) return {};
  for (Rank member = 0; member < group.world(); ++member) pieces[member] = areas.cells->of(member);
  auto cells = std::make_unique<OneShotCells>();
  cells->cells.bind(areas.cells->mine(), pieces);
  cells->area = std::move(areas.cells);
  cells->sources.resize(group.world());
  group.cells = std::move(cells);
  if (!all_write) {
    if (areas.workspace != nullptr) areas.workspace->settled();  // nobody has touched it, or will
    return {};
  }
  group.shared = std::make_unique<SharedCollective>(std::move(areas.workspace), *areas.transport, group.fabric_ranks(),
                                                    group.rank);
  return {};
}

void Fabric::drop_group(const std::shared_ptr<Group>& group) {
  LeaseHold hold(*this);
  executor_->fail_group(*group, Status(Code::aborted, "the communicator was destroyed"));
  executor_->progress();
  std::erase(groups_, group);
}

std::shared_ptr<Group> Fabric::group_of(uint32_t id) const {
  for (const auto& group : groups_)
    if (group->id == id) return group;
  return nullptr;
}

// Shared memory where there is a transport for it, else ordinary memory under the same rules.
Result<void*> Fabric::alloc(size_t bytes) {
  LeaseHold hold(*this);
  for (const auto& transport : transports_)
    if (transport->name() == "shm") return transport->alloc(bytes);
  constexpr size_t kAlign = 128;
  if (bytes > SIZE_MAX - kAlign) return fail(Code::no_memory, "alloc: {} bytes are more than memory can hold", bytes);
  PrivateMemory memory(static_cast<std::byte*>(std::aligned_alloc(kAlign, (bytes + kAlign - 1) / kAlign * kAlign)));
  if (memory == nullptr) return fail(Code::no_memory, "alloc: no memory for {} bytes", bytes);
  std::fill_n(memory.get(), bytes, std::byte{0});
  void* at = memory.get();
  private_memory_.emplace(at, std::move(memory));
  return at;
}

Status Fabric::free(void* memory) {
  LeaseHold hold(*this);
  for (const auto& transport : transports_)
    if (transport->name() == "shm") return transport->free(memory);
  if (private_memory_.erase(memory) == 1) return {};
  return fail(Code::invalid, "free: {} is not the start of an allocation", memory);
}

std::string Fabric::describe_links(const Group& group) const {
  std::string text;
  for (uint32_t i = 0; i < group.world(); ++i) {
    const Member& member = group.members[i];
    text += fmt::format("  rank {}: {}\n", i, member.transport == nullptr ? "this rank" : member.transport->name());
  }
  return text;
}

}  // namespace rondo
