// The Fabric: what one rondo_init owns and all its communicators share. Transports and their links, the control plane,
// the executor, the progress lease, the progress thread.
//
// The progress lease is a lock: whoever holds it drives transports, executor and groups. A caller that waits takes it
// and polls; while it spins it hands the lease over when another thread asks. Nobody sleeps with the lease held.
#pragma once

#include <atomic>
#include <condition_variable>
#include <cstdlib>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include "base/config.h"
#include "base/fd.h"
#include "base/log.h"
#include "base/status.h"
#include "comm/abort_text.h"
#include "comm/launch.h"
#include "comm/lease.h"
#include "exec/executor.h"
#include "transport/contract.h"
#include "transport/control.h"
#include "transport/rendezvous.h"
#include "tune/table.h"

namespace rondo {

struct Card;

struct FabricOptions {
  Config config;
  Logger log;
  Launch launch;
  std::string host_id;     // empty: found out
  int64_t timeout_ns = 0;  // lack of progress that fails a call; negative: never
};

class Fabric : public std::enable_shared_from_this<Fabric> {
 public:
  static Result<std::shared_ptr<Fabric>> create(FabricOptions options);
  ~Fabric();
  Fabric(const Fabric&) = delete;
  Fabric& operator=(const Fabric&) = delete;

  Rank rank() const { return identity_.rank; }
  uint32_t world() const { return identity_.world; }
  const Config& config() const { return options_.config; }
  const Logger& log() const { return options_.log; }
  // Ranks on a processor of this machine, rounded up.
  uint32_t ranks_a_cpu() const { return ranks_a_cpu_; }
  // Measured choices as rank 0 has read them; the same on all ranks.
  const TuningTable& tuning() const { return tuning_; }
  // The section for a communicator of these ranks.
  std::string tuning_key(const std::vector<Rank>& ranks) const;
  bool same_host(Rank other) const { return host_of_[other] == host_of_[identity_.rank]; }
  // Whether this process is a fork of the one that made the fabric.
  bool forked() const { return fork_mark_ != nullptr && *static_cast<const volatile char*>(fork_mark_) == 0; }

  // A group over these ranks of the fabric; the caller's own rank is among them. Every member calls it with the same
  // id. Lease not held.
  Result<std::shared_ptr<Group>> make_group(uint32_t id, std::vector<Rank> ranks);
  void drop_group(const std::shared_ptr<Group>& group);
  uint32_t next_group_id() const { return next_group_id_; }
  void group_id_used(uint32_t id) { next_group_id_ = id >= next_group_id_ ? id + 1 : next_group_id_; }

  // Runs `work` with the lease held.
  template <class Work>
  auto with_lease(Work&& work) {
    LeaseHold hold(*this);
    return work();
  }
  Executor& executor() { return *executor_; }

  // Calls `prepare() -> Status` with the lease held and, when that is ok, starts the operation; `block`: returns when
  // it has ended. A failed status of prepare() comes back and nothing has started.
  template <class Prepare>
  Status submit(Operation& operation, Prepare&& prepare, bool block) {
    bool others_wait;
    {
      LeaseHold hold(*this);
      RONDO_TRY(prepare());
      others_wait = launch(operation, block);
    }
    settle(operation, block, others_wait);
    return {};
  }
  // short_way.cpp; with the lease held, for the length of a spin. Whether every other member has published `turn` under
  // the same fingerprint; their payloads are then in the group's sources.
  bool await_cells(Group& group, uint64_t turn, uint64_t fingerprint);
  // Whether the next turn can begin, and whether the one that has begun is complete.
  bool may_begin(SharedCollective& shared);
  bool complete(SharedCollective& shared);
  // Until the operation ends or the time is over (negative: no limit of its own).
  void wait(Operation& operation, int64_t timeout_ns);
  // Drives progress once.
  void poll();

  // Breaks the group here and tells the others. Any thread, any number of times; never blocks for long.
  void break_group(Group& group, const Status& cause, Rank culprit);

  Result<void*> alloc(size_t bytes);
  Status free(void* memory);

  // Transport kinds and why one is not in use, for explain.
  std::string describe_links(const Group& group) const;

 private:
  explicit Fabric(FabricOptions options) : options_(std::move(options)) {}

  struct LeaseHold {
    explicit LeaseHold(Fabric& fabric) : fabric(fabric) { fabric.lease_.lock(); }
    ~LeaseHold() { fabric.lease_.unlock(); }
    Fabric& fabric;
  };

  // connect.cpp
  Status connect();
  Status link_up(const Deadline& deadline, std::vector<Card>& cards);
  Status first_cause(const Status& seen);
  Status make_transports();
  Status meet(const Deadline& deadline, std::vector<Card>& cards);
  Status adopt_tuning(const Card& first);  // rank 0's card
  Status open_control(const Deadline& deadline, const std::vector<Card>& cards);
  Status exchange_addresses(const Deadline& deadline, std::vector<Card>& cards);
  Status choose_links(const Deadline& deadline, const std::vector<Card>& cards);
  // The shared areas of a group while it is being made.
  struct Areas {
    std::unique_ptr<SharedArea> cells, workspace;  // null: not all members share (and write) memory
    Transport* transport = nullptr;                // theirs
  };
  Status share_memory(Group& group, Areas areas);
  Status open_descriptors();
  uint32_t ranks_a_cpu(const std::vector<Card>& cards) const;

  bool look_again(uint32_t tries, SharedArea& area);

  // wait.cpp
  void settle(Operation& operation, bool block, bool others_wait);
  // with the lease held
  bool launch(Operation& operation, bool block);  // whether peers wait for more of this rank
  bool pass();                                    // executor and what came of it
  bool control_pass();
  void handle(const ControlMessage& message);
  bool drive_or_pass(Operation& operation, uint32_t turn);
  bool spin(Operation& operation);
  bool yield(Operation& operation);
  bool arm();
  void disarm();
  bool sleep_step(const Operation& operation, int64_t until_ns);
  void notify_ended();
  void announce_failures();
  static void ring(const UniqueFd& bell);
  static void drain(const UniqueFd& bell);
  void run_thread();

  // watch.cpp; with the lease held
  void watch(int64_t now);
  void watch_one(Operation& operation, int64_t now);
  void fail_for_departed(Operation& operation, Rank rank);
  bool judge_suspect(Operation& operation, int64_t now, int64_t stalled);
  bool compare_boards(Operation& operation);
  void send_board(Operation& operation);
  void learn_board(const ControlMessage& message);
  void lost(const ControlMessage& message);
  std::string waiting_for(const Operation& operation) const;
  std::shared_ptr<Group> group_of(uint32_t id) const;
  void publish_failure(Group& group, Rank culprit, bool tell);
  void fail_locked(Group& group, const Status& cause, Rank culprit, bool tell);

  FabricOptions options_;
  Identity identity_;
  std::vector<uint32_t> host_of_;  // by rank: equal numbers share a host
  std::vector<pid_t> pid_of_;
  std::unique_ptr<HostDevice> device_;
  std::vector<std::unique_ptr<Transport>> transports_;
  std::vector<Member> links_;  // by rank
  std::unique_ptr<ControlPlane> control_;
  std::unique_ptr<Listener> local_listener_, remote_listener_;
  std::unique_ptr<Executor> executor_;
  std::vector<std::shared_ptr<Group>> groups_;
  std::vector<int64_t> departed_at_;  // by rank: when it said goodbye; 0: it has not
  std::vector<ControlMessage> messages_;
  uint32_t next_group_id_ = kWorldGroup;
  struct FreeMemory {
    void operator()(std::byte* memory) const { std::free(memory); }
  };
  using PrivateMemory = std::unique_ptr<std::byte, FreeMemory>;
  std::map<void*, PrivateMemory> private_memory_;  // of alloc() where nothing is shared
  void* fork_mark_ = nullptr;                      // a page that a fork wipes

  Lease lease_;
  uint32_t ranks_a_cpu_ = 1;
  TuningTable tuning_;
  std::string machine_;  // rank 0's: what its measured choices hold for
  uint32_t spins_ = 0, yields_ = 0;
  uint64_t ended_seen_ = 0;

  UniqueFd epoll_;                     // what a sleeping caller hears: transports, control plane, doorbell
  UniqueFd doorbell_, thread_bell_;    // for sleeping callers, for the progress thread
  bool armed_ = false;                 // transports ring for this rank
  std::atomic<uint32_t> sleepers_{0};  // threads in, or about to enter, a sleep
  std::atomic<bool> poller_{false};    // one waiting caller sleeps on epoll_, the others on condition_
  std::mutex condition_mutex_;
  std::condition_variable condition_;
  std::atomic<uint32_t> waiters_{0};  // callers inside wait()
  std::atomic<bool> stop_{false};
  std::atomic<bool> thread_asleep_{false};
  std::thread thread_;
};

}  // namespace rondo
