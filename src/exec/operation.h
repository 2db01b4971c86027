// An Operation is one call in flight: what was called, where its buffers are, how far it is. Made by the communicator,
// driven by the executor, waited for by any thread. Reference-counted: the executor holds one reference while it runs,
// the user's handle another. A persistent operation is one call after another: restart() lies between them.
// Everything but state(), code() and the references belongs to the holder of the progress lease.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "base/status.h"
#include "exec/call.h"
#include "exec/group.h"
#include "sched/chunks.h"
#include "sched/schedule.h"
#include "sched/walker.h"
#include "transport/contract.h"

namespace rondo {

// One place of the Schedule in memory. `origin`: the element of the layout at which `base` points (the own block's
// first where the buffer holds only that block).
struct PlaceBinding {
  std::byte* base = nullptr;
  Layout layout;
  size_t origin = 0;
};

struct Binding {
  PlaceBinding input;  // never written, unless in_place
  PlaceBinding output;
  DType dtype = DType::uint8;
  RedOp op = RedOp::sum;
  uint32_t divisor = 0;  // RedOp::avg: the number of ranks
  size_t piece = 1;      // elements of a slice
  uint32_t window = 1;
  bool in_place = false;
  std::vector<size_t> counts[2], displs[2];  // owned arrays behind the layouts' spans (v-forms)
};

enum class OperationKind : uint8_t { schedule, one_shot, shared, send, recv };
constexpr bool is_collective(OperationKind kind) { return kind < OperationKind::send; }

// Point-to-point: pieces of `piece_bytes` under one key.
struct UserTransfer {
  std::byte* data = nullptr;
  size_t bytes = 0;
  size_t piece_bytes = 1;
  int64_t tag = 0;
  std::optional<Rank> peer;  // recv: nullopt is any; fixed once a message has been chosen
  size_t moved = 0;          // bytes handed to, or taken from, the transport
  bool started = false;
};

// The messages that have arrived for the instance at the head of one (lane, slice).
struct Gather {
  std::vector<Message> messages;  // by operand; frame.version 0: not arrived
  std::vector<std::byte*> kept;   // by operand: staging memory with a copy of the message, which is released; or null
  uint32_t arrived = 0;
  uint32_t blocked = 0;  // how often the instance could not go on
  bool asked = false;    // messages has been sized for this instance
  bool exposed = false;  // its destination is offered to the transport
  // The result's way, between the kernel and conclude().
  Slot slot;
  std::byte* primary = nullptr;
  std::byte* staging = nullptr;
};

// What a persistent operation keeps from call to call. Set before its first start.
struct Persistence {
  Schedule schedule;  // of a schedule operation, which points here
  std::string name;   // the user's, for error texts; may be empty
  // Factors of the input and of the result; 1 is none. With a prescale the binding's input is `scaled`, which is made
  // of `given` before anything else; it lies in `staging`, or where the result goes.
  double prescale = 1, postscale = 1;
  const std::byte* given = nullptr;
  std::byte* scaled = nullptr;
  size_t given_count = 0, result_count = 0;  // elements
  std::vector<std::byte> staging;
};

class Operation {
 public:
  OperationKind kind = OperationKind::schedule;
  Group* group = nullptr;
  Call call;
  uint64_t seq = 0;
  uint64_t fingerprint = 0;

  // schedule, one_shot, shared
  const Schedule* schedule = nullptr;
  Binding binding;
  Walker walker;
  std::vector<Gather> gathers;  // window * lanes
  std::vector<std::byte> scratch;
  size_t scratch_stride = 0;
  uint64_t turn = 0;                     // one_shot, shared
  SharedForm form = SharedForm::rounds;  // shared
  bool published = false;                // one_shot
  uint32_t seen = 0;                     // one_shot: members 0..seen-1 have published

  std::unique_ptr<Persistence> persistence;
  enum class Phase : uint8_t { prescale, work, postscale } phase = Phase::work;
  size_t scaled = 0;  // elements, in a phase that scales

  UserTransfer user;
  int32_t priority = 0;        // higher ones are driven first
  int64_t timeout_ns = 0;      // longest time without progress; 0: the fabric's, -1: none
  uint32_t sends_pending = 0;  // sends that read the user's memory
  bool started = false;
  bool linked = false;    // in the executor's list
  bool deferred = false;  // waited for by group_end
  Status error;           // set while driving; ends the group
  // A member that has shown another call (`evidence` ok) or whose link has failed (evidence: the link's status).
  // Nothing moves until the communicator, which knows boards and farewells, has judged it.
  std::optional<Rank> suspect;
  Status evidence;
  // The watch on lack of progress (comm/watch.cpp).
  uint64_t watched_moves = 0;
  int64_t watched_since_ns = 0;
  int64_t next_look_ns = 0;
  int64_t look_every_ns = 0;
  bool warned = false;
  std::atomic<uint64_t> moves{0};  // rises with every step: the progress counter that waits look at

  Gather& gather(const Instance& at) { return gathers[(at.slice % walker_window) * schedule->lanes + at.lane]; }
  uint32_t walker_window = 1;

  // Any thread. code() is in_progress until the operation has ended; the acquire pairs with the release in end().
  Code code() const { return static_cast<Code>(state_.load(std::memory_order_acquire)); }
  bool ended() const { return code() != Code::in_progress; }
  const Status& status() const { return status_; }  // once ended
  void end(Status status) {
    status_ = std::move(status);
    state_.store(static_cast<int32_t>(status_.code()), std::memory_order_release);
  }

  // Once ended, and not in the executor's list any more: back to where it was when it was made, but for what it has
  // been told to do.
  void restart() {
    phase = persistence->prescale == 1 ? Phase::work : Phase::prescale;
    scaled = 0;
    published = false;
    seen = 0;
    started = false;
    watched_since_ns = 0;
    warned = false;
    moves.store(0, std::memory_order_relaxed);
    state_.store(static_cast<int32_t>(Code::in_progress), std::memory_order_release);
  }

  void ref() { references_.fetch_add(1, std::memory_order_relaxed); }
  // Release pairs with the acquire of the last reference's owner, who deletes.
  void unref() {
    if (references_.fetch_sub(1, std::memory_order_acq_rel) == 1) delete this;
  }

 private:
  ~Operation() = default;
  std::atomic<int32_t> state_{static_cast<int32_t>(Code::in_progress)};
  std::atomic<uint32_t> references_{1};
  Status status_;
};

}  // namespace rondo
