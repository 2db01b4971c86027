// The Schedule: one rank's program for one collective, as a plain value. Algorithms (src/algo) generate it, the verifier
// proves it, the executor runs it, the dump prints it. It holds no pointers, no byte counts and no transport names.
// Pure values, any thread.
//
// What a step means. A step makes one *value* and puts it where its verbs say:
//   value   kRecv            the next message of its stream from the one rank in `from`
//           kRecv|kReduce    the reduction of one message from every rank in `from`, in list order; the own rank in the
//                            list stands for the chunk (src_place, src_chunk) instead of a message
//           neither          the chunk (src_place, src_chunk)
//   kStore  writes the value to (dst_place, dst_chunk);   kSend  sends the value to every rank in `to`.
//   A lone kRecv takes a message and drops it (barrier); verbs 0 only waits.
// The value has as many elements as the dst chunk with kStore, else as the src chunk (which then names the size even
// where it is not read). kReduce without kRecv does not exist.
// Messages match first-in first-out per (peer, operation, lane, slice).
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "base/types.h"

namespace rondo {

enum Verb : uint8_t { kRecv = 1, kReduce = 2, kStore = 4, kSend = 8 };

enum class Place : uint8_t { input, output, scratch };

enum StepFlag : uint32_t {
  kFinal = 1,  // this reduction completes the sum of all ranks (RedOp::avg divides here, and only here)
};

struct Step {
  uint8_t verbs = 0;
  Place src_place = Place::input;
  Place dst_place = Place::output;
  uint8_t wait_lane = 0;
  uint32_t src_chunk = 0;
  uint32_t dst_chunk = 0;
  uint32_t from = 0;       // offset into Schedule::peers of a count, then ranks in operand order; 0 = none
  uint32_t to = 0;         // the same
  uint32_t wait_step = 0;  // may run once wait_lane has retired this many steps (of the same slice); 0 = no wait
  uint32_t flags = 0;
  uint32_t reserved = 0;

  bool operator==(const Step&) const = default;
};
static_assert(sizeof(Step) == 32);

// What is to be done, before an algorithm is chosen. `order` is the rank order for rings and chains (empty: 0, 1, 2 ...);
// `host_of[r]` is the host of rank r (empty: all on one).
struct Shape {
  Collective collective = Collective::allreduce;
  uint32_t world = 1;
  uint32_t chunks = 1;
  uint32_t lanes = 1;
  uint32_t root = 0;  // rooted collectives only
  std::span<const uint32_t> order = {};
  std::span<const uint16_t> host_of = {};
};

// Chunks. For allreduce, reduce, broadcast and barrier, input and output are `chunks` chunks of the whole buffer.
// For the others the buffers are `world` blocks and chunks is a multiple of world: block b holds the chunks
// [b*chunks/world, (b+1)*chunks/world).
//   allgather       input: only the own block b = rank is legal;  output: block b came from rank b
//   reduce_scatter  input: block b is for rank b;                  output: only the own block is legal
//   alltoall        input: block b goes to rank b;                 output: block b came from rank b
//   gather          input: only the own block;                     output: root only, block b came from rank b
//   scatter         input: root only, block b is for rank b;       output: only the own block
struct Schedule {
  Collective collective = Collective::allreduce;
  uint32_t world = 1;
  Rank rank = 0;
  uint32_t root = 0;
  uint32_t chunks = 1;
  uint32_t lanes = 1;
  std::vector<Step> steps;           // lane after lane
  std::vector<uint32_t> lane_begin;  // lanes + 1 entries into steps
  std::vector<uint32_t> peers;       // peers[0] is unused, so that offset 0 means none
  std::vector<uint32_t> scratch;     // scratch chunk i has the size of chunk scratch[i] (of the input's layout where
                                     // input and output differ)

  bool operator==(const Schedule&) const = default;

  std::span<const uint32_t> list(uint32_t offset) const {
    if (offset == 0) return {};
    return {peers.data() + offset + 1, peers[offset]};
  }
  std::span<const Step> lane(uint32_t index) const {
    return {steps.data() + lane_begin[index], lane_begin[index + 1] - lane_begin[index]};
  }
};

inline bool has(const Step& step, Verb verb) { return (step.verbs & verb) != 0; }

}  // namespace rondo
