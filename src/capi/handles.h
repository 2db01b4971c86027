// What the opaque handles of rondo.h are, and how statuses and texts cross the C face.
#pragma once

#include <memory>
#include <string>
#include <utility>

#include "comm/communicator.h"
#include "rondo/rondo.h"

struct rondo_comm {
  std::unique_ptr<rondo::Communicator> communicator;
};

// A handle is an operation with one reference of its own, and the fabric that drives it while it lasts; of a persistent
// one also what starts it.
struct rondo_op {
  rondo::OperationRef operation;
  std::weak_ptr<rondo::Fabric> fabric;
  std::unique_ptr<rondo::PersistentCall> persistent;
};
