#include "sched/verify_run.h"

#include <algorithm>
#include <utility>

#include "sched/dump.h"
#include "sched/verify_buffers.h"

namespace rondo {
namespace {

// What names the size of a chunk: the chunk itself, and for alltoall the pair of ranks that exchange it.
uint64_t size_identity(const Schedule& s, Place place, uint32_t chunk) {
  if (place == Place::scratch) return size_identity(s, Place::input, s.scratch[chunk]);
  if (s.collective != Collective::alltoall) return chunk;
  const uint64_t per_pair = s.chunks / s.world;
  if (place == Place::input) return static_cast<uint64_t>(s.rank) * s.chunks + chunk;
  return chunk / per_pair * s.chunks + s.rank * per_pair + chunk % per_pair;
}

uint64_t size_identity(const Schedule& s, const Step& step) {
  return has(step, kStore) ? size_identity(s, step.dst_place, step.dst_chunk)
                           : size_identity(s, step.src_place, step.src_chunk);
}

uint64_t key(const Instance& instance) { return static_cast<uint64_t>(instance.slice) << 32 | instance.step; }

}  // namespace

VerifyRun::VerifyRun(std::span<const Schedule> schedules, const VerifyOptions& options, const RunModel& model,
                     Values& values)
    : schedules_(schedules),
      options_(options),
      model_(model),
      values_(values),
      random_(model.seed * 0x9e3779b97f4a7c15u + 0x2545f4914f6cdd1du) {
  processes_.resize(schedules.size() * options.operations_in_flight);
  for (uint32_t operation = 0; operation < options.operations_in_flight; ++operation)
    for (size_t rank = 0; rank < schedules.size(); ++rank)
      make_process(processes_[operation * schedules.size() + rank], schedules[rank], operation);
  for (uint32_t i = 0; i < processes_.size(); ++i) turns_.push_back(i);
}

void VerifyRun::make_process(Process& process, const Schedule& schedule, uint32_t operation) {
  process.schedule = &schedule;
  process.operation = operation;
  process.walker.reset(schedule, {.slices = options_.slices, .window = options_.window, .in_place = options_.in_place});
  const size_t cells = 2ull * schedule.chunks + schedule.scratch.size();
  process.memory.assign(cells * options_.slices, Values::kUnwritten);
  for (uint32_t slice = 0; slice < options_.slices; ++slice)
    for (uint32_t chunk = 0; chunk < schedule.chunks; ++chunk)
      if (has_input(schedule, chunk)) cell(process, slice, Place::input, chunk) = values_.leaf(schedule.rank, chunk);
  if (schedule.collective != Collective::barrier) return;
  Set me((schedule.world + 63) / 64, 0);
  me[schedule.rank / 64] |= 1ull << schedule.rank % 64;
  process.known.assign(static_cast<size_t>(options_.slices) * schedule.lanes, {me});
}

VerifyRun::Value& VerifyRun::cell(Process& process, uint32_t slice, Place place, uint32_t chunk) const {
  const Schedule& s = *process.schedule;
  const size_t base = slice * (2ull * s.chunks + s.scratch.size());
  if (place == Place::scratch) return process.memory[base + 2ull * s.chunks + chunk];
  const bool second = place == Place::output && !options_.in_place;
  return process.memory[base + (second ? s.chunks : 0) + chunk];
}

VerifyRun::Stream& VerifyRun::stream(uint32_t from, uint32_t to, uint32_t operation, const Instance& instance) {
  return streams_[static_cast<uint64_t>(from) << 48 | static_cast<uint64_t>(to) << 32 |
                  static_cast<uint64_t>(operation) << 28 | static_cast<uint64_t>(instance.lane) << 16 | instance.slice];
}

bool VerifyRun::chance(uint32_t one_in) {
  random_ ^= random_ << 13;
  random_ ^= random_ >> 7;
  random_ ^= random_ << 17;
  return (random_ >> 20) % one_in == 0;
}

std::string VerifyRun::where(const Process& process, const Instance& instance) const {
  const Schedule& s = *process.schedule;
  return fmt::format("rank {} lane {} step {} slice {} ({})", s.rank, instance.lane,
                     instance.step - s.lane_begin[instance.lane], instance.slice, describe(s, s.steps[instance.step]));
}

Status VerifyRun::run() {
  for (;;) {
    bool moved = round(model_.random);
    if (!moved && error_.ok() && model_.random) moved = round(false);
    if (!error_.ok()) return error_;
    if (!moved) break;
  }
  RONDO_TRY(check_complete());
  return check_results();
}

bool VerifyRun::round(bool hostile) {
  hostile_ = hostile;
  if (model_.random)
    for (size_t i = turns_.size(); i > 1; --i) {
      chance(2);
      std::swap(turns_[i - 1], turns_[(random_ >> 20) % i]);
    }
  bool moved = false;
  for (const uint32_t turn : turns_) {
    Process& process = processes_[turn];
    if (process.walker.complete()) continue;
    moved |= finish_started(process);
    moved |= process.walker.advance(
        [&](const Instance& instance, const Step& step) { return offer(process, instance, step); });
    if (!error_.ok()) return false;
  }
  return moved;
}

bool VerifyRun::finish_started(Process& process) {
  bool moved = false;
  for (size_t i = 0; i < process.started.size();) {
    const Instance instance = process.started[i].instance;
    const Step& step = process.schedule->steps[instance.step];
    if ((hostile_ && chance(2)) || !has_room(process, instance, step)) {
      ++i;
      continue;
    }
    const Started made = std::move(process.started[i]);
    process.started.erase(process.started.begin() + static_cast<std::ptrdiff_t>(i));
    if (reads_source(*process.schedule, step)) {
      const Value& source = cell(process, instance.slice, step.src_place, step.src_chunk);
      const bool overwrites =
          has(step, kStore) && &source == &cell(process, instance.slice, step.dst_place, step.dst_chunk);
      if (!overwrites && source != made.source)
        error_ = fail(Code::invalid, "{}: its source changes while it runs", where(process, instance));
    }
    const bool sending = put(process, step, made);
    process.walker.finished(instance, sending);
    moved = true;
  }
  return moved;
}

bool VerifyRun::may_take(const Process& process, const Instance& instance, const Step& step) {
  if (!has(step, kRecv)) return true;
  const Schedule& s = *process.schedule;
  for (const uint32_t rank : s.list(step.from))
    if (rank != s.rank && stream(rank, s.rank, process.operation, instance).size() == 0) return false;
  return true;
}

bool VerifyRun::has_room(const Process& process, const Instance& instance, const Step& step) {
  if (!has(step, kSend) || model_.sends == SendModel::buffered) return true;
  const Schedule& s = *process.schedule;
  const size_t room = model_.sends == SendModel::held ? 1 : 2;
  for (const uint32_t rank : s.list(step.to))
    if (stream(s.rank, rank, process.operation, instance).size() >= room) return false;
  return true;
}

Outcome VerifyRun::offer(Process& process, const Instance& instance, const Step& step) {
  if (!error_.ok() || (hostile_ && chance(4)) || !may_take(process, instance, step)) return Outcome::blocked;
  const bool room = has_room(process, instance, step);
  if (!room && (model_.sends == SendModel::whole || !has(step, kRecv))) return Outcome::blocked;
  Started made{instance, Values::kUnwritten, Values::kUnwritten, {}};
  if (error_ = make_value(process, instance, step, made); !error_.ok()) return Outcome::blocked;
  learn(process, instance, step, made);
  const bool late = hostile_ && (step.verbs & (kReduce | kStore)) != 0 && chance(3);
  if (room && !late) return put(process, step, made) ? Outcome::sending : Outcome::done;
  if (has(step, kStore)) cell(process, instance.slice, step.dst_place, step.dst_chunk) = Values::kTorn;
  process.started.push_back(std::move(made));
  return Outcome::pending;
}

Status VerifyRun::make_value(Process& process, const Instance& instance, const Step& step, Started& made) {
  if (step.verbs == 0) return {};
  const Schedule& s = *process.schedule;
  const uint64_t size = size_identity(s, step);
  if (!has(step, kRecv)) {
    RONDO_TRY(read(process, instance, size, made.source));
    made.value = made.source;
    return {};
  }
  operands_.clear();
  for (const uint32_t rank : s.list(step.from)) {
    Value value = Values::kUnwritten;
    if (rank == s.rank) {
      RONDO_TRY(read(process, instance, size, value));
      made.source = value;
    } else {
      RONDO_TRY(take(process, instance, rank, size, made, value));
    }
    operands_.push_back(value);
  }
  made.value = operands_[0];
  if (!has(step, kReduce)) return {};
  Result<Value> sum = values_.sum(operands_);
  if (!sum.ok()) return fail(Code::invalid, "{}: {}", where(process, instance), sum.status().text());
  made.value = sum.value();
  const bool complete = values_.complete(made.value), marked = (step.flags & kFinal) != 0;
  if (complete == marked) return {};
  return fail(Code::invalid, "{}: makes {}, but is {}marked final", where(process, instance), values_.text(made.value),
              marked ? "" : "not ");
}

Status VerifyRun::read(Process& process, const Instance& instance, uint64_t size, Value& value) {
  const Step& step = process.schedule->steps[instance.step];
  value = cell(process, instance.slice, step.src_place, step.src_chunk);
  if (value == Values::kUnwritten || value == Values::kTorn)
    return fail(Code::invalid, "{}: reads a chunk that holds {}", where(process, instance), values_.text(value));
  if (size_identity(*process.schedule, step.src_place, step.src_chunk) != size)
    return fail(Code::invalid, "{}: source and destination may differ in size", where(process, instance));
  return {};
}

Status VerifyRun::take(Process& process, const Instance& instance, uint32_t from, uint64_t size, Started& made,
                       Value& value) {
  Stream& queue = stream(from, process.schedule->rank, process.operation, instance);
  const Message message = std::move(queue.queue[queue.head++]);
  if (queue.size() == 0) queue = {};
  value = message.value;
  if (message.size != size)
    return fail(Code::invalid, "{}: takes {} from rank {}, whose size may differ", where(process, instance),
                values_.text(value), from);
  for (size_t word = 0; word < message.known.size(); ++word) {
    made.known.resize(message.known.size());
    made.known[word] |= message.known[word];
  }
  if (model_.sends == SendModel::buffered) return {};
  Process& sender = *message.sender;
  if (message.in_memory && cell(sender, instance.slice, message.place, message.chunk) != message.value)
    return fail(Code::invalid, "{}: what it sends to rank {} is overwritten before it is received",
                where(sender, message.instance), process.schedule->rank);
  const auto unreceived = sender.unreceived.find(key(message.instance));
  if (--unreceived->second == 0) {
    sender.unreceived.erase(unreceived);
    sender.walker.sent(message.instance);
  }
  return {};
}

// Barrier: what this rank knows once the step has run, by its lane, its wait and its messages.
void VerifyRun::learn(Process& process, const Instance& instance, const Step& step, Started& made) {
  if (process.known.empty()) return;
  auto* const lanes = process.known.data() + static_cast<size_t>(instance.slice) * process.schedule->lanes;
  const Set& before = lanes[instance.lane].back();
  made.known.resize(before.size());
  for (size_t word = 0; word < before.size(); ++word) {
    made.known[word] |= before[word];
    if (step.wait_step != 0) made.known[word] |= lanes[step.wait_lane][step.wait_step][word];
  }
}

// Writes and sends what the step made. Returns whether its sends still read their source.
bool VerifyRun::put(Process& process, const Step& step, const Started& made) {
  const Schedule& s = *process.schedule;
  const Instance& instance = made.instance;
  if (has(step, kStore)) cell(process, instance.slice, step.dst_place, step.dst_chunk) = made.value;
  if (!process.known.empty())
    process.known[static_cast<size_t>(instance.slice) * s.lanes + instance.lane].push_back(made.known);
  if (!has(step, kSend)) return false;
  Message message{made.value,
                  size_identity(s, step),
                  &process,
                  instance,
                  has(step, kStore) || !has(step, kRecv),
                  has(step, kStore) ? step.dst_place : step.src_place,
                  has(step, kStore) ? step.dst_chunk : step.src_chunk,
                  made.known};
  for (const uint32_t rank : s.list(step.to))
    stream(s.rank, rank, process.operation, instance).queue.push_back(message);
  if (model_.sends == SendModel::buffered) return false;
  process.unreceived[key(instance)] = static_cast<uint32_t>(s.list(step.to).size());
  return true;
}

Status VerifyRun::check_complete() {
  std::string stuck;
  uint32_t named = 0;
  for (Process& process : processes_)
    process.walker.heads([&](const Instance& instance, const Step&) {
      if (++named <= 4) stuck += (named > 1 ? "; " : "") + where(process, instance);
    });
  if (named > 0) return fail(Code::invalid, "deadlock: {} steps cannot run: {}", named, stuck);
  for (const auto& [id, queue] : streams_)
    if (queue.size() != 0) {
      const Message& message = queue.queue[queue.head];
      return fail(Code::invalid, "{}: what it sends to rank {} is never received",
                  where(*message.sender, message.instance), id >> 32 & 0xffff);
    }
  return {};
}

Status VerifyRun::check_results() {
  agreed_.assign(schedules_[0].chunks, Values::kUnwritten);
  for (Process& process : processes_) {
    if (process.schedule->collective == Collective::barrier) {
      RONDO_TRY(check_barrier(process));
      continue;
    }
    for (uint32_t slice = 0; slice < options_.slices; ++slice)
      for (uint32_t chunk = 0; chunk < process.schedule->chunks; ++chunk)
        if (has_output(*process.schedule, chunk)) RONDO_TRY(check_chunk(process, slice, chunk));
  }
  return {};
}

VerifyRun::Value VerifyRun::wanted_leaf(const Schedule& s, uint32_t chunk) const {
  const uint32_t per_block = s.chunks / s.world;
  switch (s.collective) {
    case Collective::allgather:
    case Collective::gather:
      return values_.leaf(chunk / per_block, chunk);
    case Collective::alltoall:
      return values_.leaf(chunk / per_block, s.rank * per_block + chunk % per_block);
    default:
      return values_.leaf(s.root, chunk);  // broadcast, scatter
  }
}

Status VerifyRun::check_chunk(Process& process, uint32_t slice, uint32_t chunk) {
  const Schedule& s = *process.schedule;
  const Value value = cell(process, slice, Place::output, chunk);
  const auto wrong = [&](const std::string& wanted) {
    return fail(Code::invalid, "rank {}: output chunk {} slice {} ends as {}, not as {}", s.rank, chunk, slice,
                values_.text(value), wanted);
  };
  if (!reduces(s.collective))
    return value == wanted_leaf(s, chunk) ? Status() : wrong(values_.text(wanted_leaf(s, chunk)));
  if (value < 2 || !values_.complete(value) || values_.chunk(value) != chunk)
    return wrong(fmt::format("the sum of {} ranks of chunk {}", s.world, chunk));
  if (s.collective != Collective::allreduce) return {};
  if (agreed_[chunk] == Values::kUnwritten) agreed_[chunk] = value;
  if (agreed_[chunk] == value) return {};
  return fail(Code::invalid, "rank {}: output chunk {} is added up in another order than on rank {}", s.rank, chunk,
              schedules_[0].rank);
}

Status VerifyRun::check_barrier(const Process& process) const {
  const Schedule& s = *process.schedule;
  for (uint32_t slice = 0; slice < options_.slices; ++slice)
    for (uint32_t rank = 0; rank < s.world; ++rank) {
      bool known = false;
      for (uint32_t lane = 0; lane < s.lanes; ++lane)
        known |= (process.known[static_cast<size_t>(slice) * s.lanes + lane].back()[rank / 64] >> rank % 64 & 1) != 0;
      if (!known) return fail(Code::invalid, "rank {}: may leave the barrier before rank {} enters", s.rank, rank);
    }
  return {};
}

}  // namespace rondo
