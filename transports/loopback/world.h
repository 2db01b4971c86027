// What the ranks of a loopback world share. Internal to this folder; every member function is called with `mutex` held.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <deque>
#include <map>
#include <memory>
#include <mutex>
#include <utility>
#include <vector>

#include "base/fd.h"
#include "transports/loopback/loopback.h"

namespace rondo::loopback {

struct FreeMemory {
  void operator()(std::byte* memory) const { std::free(memory); }
};
using Memory = std::unique_ptr<std::byte[], FreeMemory>;

// 128-byte aligned, zeroed; null when there is no memory.
Memory make_memory(size_t bytes);

inline constexpr uint32_t kNoSlot = UINT32_MAX;

// A message on its way. Exactly one of: its own copy, a slot of the sender, the sender's memory (pending).
struct Wire {
  Frame frame;
  Memory copy;
  uint32_t slot = kNoSlot;
  const std::byte* data = nullptr;
  bool pending = false;
  Token token = 0;
};

enum class Life : uint8_t { alive, closed, killed };

struct Link {  // one direction
  std::deque<Wire> ring;
  bool refused = false;  // the sender was told `again` since the receiver last made room
};

struct SlotState {
  Memory memory;
  uint32_t readers = 0;  // that have not released it yet; 0: free
};

struct Member {
  Life life = Life::alive;
  UniqueFd event;      // readable: wake up
  bool armed = false;  // its holder may be asleep
  bool woken = false;  // since the latest arm()
  bool slot_refused = false;
  std::vector<SlotState> slots;
  std::vector<Completion> completions;
};

using AreaName = std::pair<uint64_t, std::vector<Rank>>;
struct Area {
  std::map<Rank, std::shared_ptr<std::byte[]>> pieces;
};

struct State {
  State(uint32_t world, const LoopbackOptions& options);

  Link& link(Rank from, Rank to) { return links[from * members.size() + to]; }
  void wake(Rank rank);
  void release_slot(Rank owner, uint32_t slot);
  // Drops what stands in a ring, giving back slots and completing pending sends.
  void drop(Rank from, Rank to);
  // Makes a pending message independent of its sender's memory and completes it.
  void detach(Rank from, Wire& wire);
  // `rank` ends: nothing more comes from it, nothing is read by it.
  void end(Rank rank, Life how);

  const LoopbackOptions options;
  std::mutex mutex;
  std::vector<Member> members;
  std::vector<Link> links;
  std::map<AreaName, Area> areas;
};

std::unique_ptr<Transport> make_transport(std::shared_ptr<State> state, Rank rank);

}  // namespace rondo::loopback
