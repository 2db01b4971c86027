// A persistent call: one collective on fixed buffers, checked, planned and bound once, started as often as wanted. A
// start allocates nothing and asks neither tuner nor cache. Owned by the user's handle; outlives its communicator,
// after which a start fails. start() from any thread; one call is under way at a time.
#pragma once

#include <cstdint>
#include <memory>
#include <string>

#include "base/status.h"
#include "comm/fabric.h"
#include "comm/operation_ref.h"
#include "exec/board.h"
#include "tune/choose.h"

namespace rondo {

// What a call may have of its own; the defaults are the communicator's.
struct CallOptions {
  uint32_t determinism = 0;  // 0: the communicator's; 1: A1, 2: A2
  int64_t timeout_ns = 0;    // 0: the communicator's; -1: none
  AlgorithmSpec spec;        // with a text: instead of the communicator's
  std::string name;          // for error texts
  double prescale = 1, postscale = 1;
  int32_t priority = 0;
};

class PersistentCall {
 public:
  // Of an operation that has been laid out and has its Persistence; its call says what all ranks must agree on.
  PersistentCall(const std::shared_ptr<Fabric>& fabric, const std::shared_ptr<Group>& group, OperationRef operation);

  // Begins the next call, which takes its place in the group's sequence. Never blocks. Invalid: the last one is still
  // under way.
  Status start();
  Operation& operation() const { return *operation_.get(); }

 private:
  Status next_call(Group& group);

  std::weak_ptr<Fabric> fabric_;
  std::weak_ptr<Group> group_;
  OperationRef operation_;
  uint64_t digest_ = 0;
  CallBoard::PackedCall packed_{};
};

}  // namespace rondo
