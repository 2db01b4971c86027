// A Group is what the executor knows of a communicator: its members, how they are reached, and where its sequence of
// calls stands. Owned by the communicator, touched by the holder of the progress lease only.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <vector>

#include "base/status.h"
#include "base/types.h"
#include "exec/board.h"
#include "exec/one_shot.h"
#include "exec/shared_collective.h"
#include "transport/contract.h"

namespace rondo {

struct Member {
  Rank fabric_rank = 0;          // rank in the job
  Endpoint* endpoint = nullptr;  // null for this rank itself
  Transport* transport = nullptr;
};

struct Group {
  uint32_t id = 0;
  uint32_t epoch = 0;
  Rank rank = 0;
  std::vector<Member> members;  // by rank in the communicator
  uint64_t next_seq = 0;        // of collectives
  uint64_t chain = 0;           // fingerprint of the calls so far
  uint32_t in_flight = 0;       // collectives started and not complete
  std::unique_ptr<CallBoard> board;
  std::unique_ptr<OneShotCells> cells;       // null: not all members share memory
  std::unique_ptr<SharedCollective> shared;  // null: there is no memory that all members write
  Status broken;                             // sticky; the first cause
  std::atomic<int32_t> health{0};            // its code, for readers without the lease

  uint32_t world() const { return static_cast<uint32_t>(members.size()); }
  std::vector<Rank> fabric_ranks() const {
    std::vector<Rank> ranks;
    for (const Member& member : members) ranks.push_back(member.fabric_rank);
    return ranks;
  }
};

// Collectives of one communicator that run at the same time; later ones wait for their turn.
inline constexpr uint32_t kOperationsInFlight = 8;

}  // namespace rondo
