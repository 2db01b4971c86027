// One symbolic execution of all ranks' programs: the Runner of the verifier. Used by verify.cpp only.
#pragma once

#include <cstdint>
#include <span>
#include <unordered_map>
#include <vector>

#include "base/status.h"
#include "sched/schedule.h"
#include "sched/verify.h"
#include "sched/verify_values.h"
#include "sched/walker.h"

namespace rondo {

// What a send does until it is received.
enum class SendModel : uint8_t {
  buffered,  // takes a copy at once, any number
  held,      // reads its source until received; one a stream; a step that received waits for room, keeping its value
  whole,     // reads its source until received; two a stream; a step does all of its parts at once or nothing
};

struct RunModel {
  SendModel sends = SendModel::buffered;
  bool random = false;  // random order, random refusals, leaf actions that finish late
  uint64_t seed = 0;
};

class VerifyRun {
 public:
  VerifyRun(std::span<const Schedule> schedules, const VerifyOptions& options, const RunModel& model, Values& values);

  Status run();

 private:
  using Value = Values::Value;
  using Set = std::vector<uint64_t>;  // of ranks; barrier only

  struct Started {
    Instance instance;
    Value value, source;
    Set known;
  };
  struct Process {  // one rank in one operation
    const Schedule* schedule = nullptr;
    uint32_t operation = 0;
    Walker walker;
    std::vector<Value> memory;  // per slice: input, output (the same in place), scratch
    std::vector<Started> started;
    std::unordered_map<uint64_t, uint32_t> unreceived;  // instance -> messages
    std::vector<std::vector<Set>> known;                // per slice and lane: after every retired step
  };
  struct Message {
    Value value;
    uint64_t size;
    Process* sender;
    Instance instance;
    bool in_memory;
    Place place;
    uint32_t chunk;
    Set known;
  };
  struct Stream {
    std::vector<Message> queue;
    size_t head = 0;
    size_t size() const { return queue.size() - head; }
  };

  void make_process(Process& process, const Schedule& schedule, uint32_t operation);
  bool round(bool hostile);
  bool finish_started(Process& process);
  Outcome offer(Process& process, const Instance& instance, const Step& step);
  bool may_take(const Process& process, const Instance& instance, const Step& step);
  bool has_room(const Process& process, const Instance& instance, const Step& step);
  Status make_value(Process& process, const Instance& instance, const Step& step, Started& made);
  Status take(Process& process, const Instance& instance, uint32_t from, uint64_t size, Started& made, Value& value);
  Status read(Process& process, const Instance& instance, uint64_t size, Value& value);
  bool put(Process& process, const Step& step, const Started& made);
  void learn(Process& process, const Instance& instance, const Step& step, Started& made);

  Value& cell(Process& process, uint32_t slice, Place place, uint32_t chunk) const;
  Stream& stream(uint32_t from, uint32_t to, uint32_t operation, const Instance& instance);
  bool chance(uint32_t one_in);
  std::string where(const Process& process, const Instance& instance) const;

  Status check_complete();
  Status check_results();
  Status check_chunk(Process& process, uint32_t slice, uint32_t chunk);
  Status check_barrier(const Process& process) const;
  Value wanted_leaf(const Schedule& schedule, uint32_t chunk) const;

  std::span<const Schedule> schedules_;
  VerifyOptions options_;
  RunModel model_;
  Values& values_;
  uint64_t random_;
  bool hostile_ = false;
  std::vector<Process> processes_;
  std::unordered_map<uint64_t, Stream> streams_;
  std::vector<Value> agreed_;    // allreduce: the tree of each chunk on the first rank
  std::vector<Value> operands_;  // reused
  std::vector<uint32_t> turns_;
  Status error_;
};

}  // namespace rondo
