// A Communicator: a group of ranks on a Fabric, with the calls that a user makes on it. Any thread may call; the order
// of collectives on one communicator is the user's to keep the same on all ranks.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include "base/status.h"
#include "comm/fabric.h"
#include "comm/operation_ref.h"
#include "comm/persistent.h"
#include "comm/schedule_cache.h"
#include "exec/request.h"
#include "tune/choose.h"

namespace rondo {

struct CommunicatorSettings {
  AlgorithmSpec spec;
  uint32_t determinism = 1;
};

enum class Block : uint8_t { no, yes };

void take_turn(Operation& operation);

class Communicator {
 public:
  // Over all ranks of the fabric.
  static Result<std::unique_ptr<Communicator>> create(std::shared_ptr<Fabric> fabric, CommunicatorSettings settings);
  // Leaves: outstanding operations end as aborted.
  ~Communicator();
  Communicator(const Communicator&) = delete;
  Communicator& operator=(const Communicator&) = delete;

  Rank rank() const { return group_->rank; }
  uint32_t world() const { return group_->world(); }
  uint32_t local_rank() const { return local_rank_; }
  uint32_t local_world() const { return local_world_; }
  Fabric& fabric() { return *fabric_; }

  // Starts the collective (checked); with Block::yes it has ended when this returns.
  Result<OperationRef> collective(const Request& request, Block block);
  // The blocking form: the status with which it has ended.
  Status run(const Request& request);
  // The short way of a blocking collective (no v-form): on shared memory, of a kind that has been called before, so
  // that neither Operation nor allocation is needed. False: not one of these, nothing has happened; true: it has ended,
  // and
  // `*status`, which was ok, says how.
  struct RepeatArgs {
    Collective collective = Collective::allreduce;
    const void* in = nullptr;
    void* out = nullptr;
    size_t count = 0;
    int dtype = 0, op = 0;  // as the caller gave them, perhaps no DType and no RedOp
    int64_t root = 0;
  };
  bool repeat(const RepeatArgs& args, Status* status);
  // An operation for the same call again and again. Local: nothing is started, and nothing reaches the peers.
  Result<std::unique_ptr<PersistentCall>> persistent(const Request& request, const CallOptions& options);
  // Point-to-point. peer nullopt: any (receives only).
  struct Transfer {
    OperationKind kind = OperationKind::send;
    void* data = nullptr;
    size_t count = 0;
    DType dtype = DType::uint8;
    int64_t peer = 0;  // -1: any
    int64_t tag = 0;
  };
  Result<OperationRef> transfer(const Transfer& transfer, Block block);

  Status group_begin();
  Status group_end();

  // Null for a negative color.
  Result<std::unique_ptr<Communicator>> split(int32_t color, int32_t key);

  Status abort(const std::string& why);
  // The sticky cause, or ok. The code never blocks.
  Code health() const { return static_cast<Code>(group_->health.load(std::memory_order_acquire)); }
  Status cause() const;
  Result<std::string> explain(Collective collective, size_t bytes, DType dtype) const;

 private:
  Communicator(std::shared_ptr<Fabric> fabric, std::shared_ptr<Group> group, CommunicatorSettings settings);
  static Result<std::unique_ptr<Communicator>> over(std::shared_ptr<Fabric> fabric, uint32_t id,
                                                    std::vector<Rank> ranks, CommunicatorSettings settings);
  Status usable() const;
  bool in_a_group() const { return groups_open_.load(std::memory_order_relaxed) != 0 && this_thread_in_a_group(); }
  bool this_thread_in_a_group() const;
  void gather_facts();
  // short_way.cpp
  struct RepeatedKind {
    RepeatArgs key{.count = SIZE_MAX};  // without buffers
    size_t in_bytes = 0, out_bytes = 0;
    bool has_in_place = false;
    intptr_t in_place = 0;  // in - out where that is the one legal way to overlap
    Means means = Means::cells;
    size_t piece_bytes = 0;
    uint32_t divisor = 0;
    Call call;
    CallBoard::PackedCall packed{};
    uint64_t digest = 0;
    kernels::ReduceFn reduce = nullptr;
  };
  static constexpr size_t kKinds = 16;
  static size_t kind_index(const RepeatArgs& args);
  static bool fits(const RepeatedKind& kind, const RepeatArgs& args);
  void remember_kind(const Request& request, const Call& call, const Choice& choice);
  static SharedForm form_of(Means means) { return means == Means::claims ? SharedForm::claims : SharedForm::rounds; }
  bool repeat_with_lease(const RepeatArgs& args, OperationRef* rest);
  void repeat_turn(const RepeatArgs& args, const RepeatedKind& kind, const BoardEntry& entry, OperationRef* rest);
  OperationRef start_rest(const RepeatArgs& args, const RepeatedKind& kind, const BoardEntry& entry, uint64_t turn);
  BoardEntry record(const Call& call);
  Status prepare(Operation& operation, const Request& request);
  CommFacts facts_for(const Request& request) const;
  Shape shape_of(const Request& request, const Choice& choice) const;
  void lay_out(Operation& operation, const Request& request, const Choice& choice, const Schedule* schedule) const;

  std::shared_ptr<Fabric> fabric_;
  std::shared_ptr<Group> group_;
  CommunicatorSettings settings_;
  CommFacts facts_;
  std::string tuning_key_;
  uint32_t local_rank_ = 0, local_world_ = 1;
  // With the lease held:
  ScheduleCache schedules_;
  struct Remembered {
    size_t bytes = SIZE_MAX;
    bool vector_form = false;
    Choice choice;
    uint32_t hash = 0;
  };
  Remembered choices_[kCollectiveCount];  // the latest of each collective
  RepeatedKind kinds_[kKinds];            // calls by an intrinsic that have been made before
  OperationRef spare_;                    // for one that takes longer than a spin

  struct Deferred {
    uint32_t depth = 0;
    std::vector<OperationRef> operations;
  };
  mutable std::mutex deferred_mutex_;
  std::map<std::thread::id, Deferred> deferred_;  // groups that are open, by thread
  std::atomic<uint32_t> groups_open_{0};
};

}  // namespace rondo
