// The executor runs operations over transports: it offers the Walker's instances to endpoints and the device, and knows
// no algorithm and no transport by name. One per Fabric. Progress-lease holder only.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "exec/device.h"
#include "exec/operation.h"
#include "transport/contract.h"

namespace rondo {

class Executor {
 public:
  struct Options {
    Device* device = nullptr;            // borrowed
    std::vector<Transport*> transports;  // borrowed
    uint32_t epoch = 0;
    size_t expose_bytes = 4096;  // receives of at least this many bytes offer their destination
  };
  explicit Executor(Options options);
  ~Executor();

  // Takes a reference and runs the operation when its turn has come. Sequence, turn and fingerprint are set already.
  // Never called while operations are driven.
  void submit(Operation& operation);
  // Moves whatever can move. Returns whether anything did.
  bool progress();
  // One operation's turn without the others: the spin phase of a small blocking call.
  bool drive(Operation& operation);

  // Ends every operation of the group with `status` and refuses later ones; the first cause stays. No memory of the
  // user's is touched afterwards.
  void fail_group(Group& group, const Status& status);
  // What an operation waits for: the ranks of its group whose messages are missing.
  std::vector<Rank> awaited(const Operation& operation) const;

  // Whether the operation has given its peers all that they wait for, so that only this rank waits for what is left.
  bool has_given_all(const Operation& operation) const;

  uint32_t running() const { return running_; }  // operations that have not ended
  std::span<Operation* const> active() const { return active_; }
  // Whether an operation has a suspect: the caller looks at the boards soon.
  bool suspicious() const { return suspicious_; }
  // Operations ended since the executor was made.
  uint64_t ended() const { return ended_; }

 private:
  // The sends of one instance that are not complete yet.
  struct Batch {
    Operation* operation = nullptr;  // null: nothing of the user's is read
    Instance instance{};
    uint32_t outstanding = 0;
    std::byte* staging = nullptr;  // freed with the batch
  };
  // A message that found no room.
  struct Queued {
    Endpoint* endpoint;
    Rank to;
    Frame frame;
    const std::byte* data;
    uint32_t batch;
  };
  struct Extent {
    size_t begin = 0, count = 0, bytes = 0;  // of the slice within its chunk (elements), and its bytes
    bool exists = false;
  };
  struct Targets {                 // where the sends of a step go
    Transport* slotted = nullptr;  // the transport that gets a slot
    uint32_t readers = 0;          // peers on it
    uint32_t direct = 0;           // peers that get send()
  };

  // schedule operations (steps.cpp)
  Extent extent(const Operation& operation, const Step& step, uint32_t slice) const;
  std::byte* address(const Operation& operation, Place place, uint32_t chunk, const Extent& extent,
                     uint32_t slice) const;
  Outcome run(Operation& operation, const Instance& at, const Step& step);
  bool gather(Operation& operation, const Instance& at, const Step& step, const Extent& extent);
  bool check_message(Operation& operation, Rank from, const Message& message, size_t bytes);
  void offer_destination(Operation& operation, const Instance& at, const Step& step, const Extent& extent);
  Targets targets(const Operation& operation, const Step& step, size_t bytes) const;
  void suspect(Operation& operation, Rank rank, Status evidence);
  bool behind(const Endpoint& endpoint) const;  // an earlier message to this peer waits for room
  void keep_what_is_wanted_back(Operation& operation, const Instance& at, const Step& step);
  void let_go(Operation& operation, Gather& way, const Step& step);
  bool make_room(Operation& operation, const Instance& at, const Step& step, const Extent& extent, const Targets& to);
  bool compute(Operation& operation, const Instance& at, const Step& step, const Extent& extent);
  bool conclude(Operation& operation, const Instance& at, const Step& step, const Extent& extent);
  void give_back(Operation& operation, const Instance& at, const Step& step);
  Frame frame_of(const Operation& operation, const Instance& at, size_t bytes) const;

  // sends (sends.cpp)
  uint32_t open_batch(Operation* operation, const Instance& at, std::byte* staging);
  void emit(Operation& operation, Rank to, const Frame& frame, const std::byte* data, uint32_t batch);
  bool close_batch(uint32_t batch);  // true: nothing outstanding, the batch is gone
  void send_complete(uint32_t batch);
  bool flush_queue();
  std::byte* take_staging(size_t bytes);
  void return_staging(std::byte* staging);
  void drop_sends(Group& group);

  // the other kinds
  bool drive_schedule(Operation& operation);
  bool drive_one_shot(Operation& operation);
  bool drive_shared(Operation& operation);
  bool drive_send(Operation& operation);
  bool drive_recv(Operation& operation);
  bool send_pieces(Operation& operation);
  bool recv_pieces(Operation& operation);
  bool choose_message(Operation& operation);
  bool is_first_of_its_key(const Operation& operation) const;
  bool recv_from_self(Operation& operation);

  bool start(Operation& operation);
  bool scale_piece(Operation& operation);
  void complete(Operation& operation);
  void finish(Operation& operation, Status status);
  void sweep();
  void withdraw_all(Operation& operation);

  Options options_;
  std::vector<Operation*> active_;  // by priority, then in order of submission
  std::vector<Batch> batches_;
  std::vector<uint32_t> free_batches_;
  std::vector<Queued> queue_;
  std::vector<Completion> completions_;
  std::vector<Device::Token> device_done_;
  struct DeviceWork {
    Operation* operation;
    Instance instance;
  };
  std::vector<DeviceWork> device_work_;
  std::vector<const void*> sources_;
  struct StagingBuffer {
    std::unique_ptr<std::byte[]> memory;
    size_t bytes;
    bool taken;
  };
  std::vector<StagingBuffer> staging_;
  uint64_t ended_ = 0;
  uint32_t running_ = 0;
  bool sweep_needed_ = false;
  bool suspicious_ = false;
};

}  // namespace rondo
