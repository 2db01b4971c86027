#include "exec/executor.h"

#include <algorithm>

#include "base/check.h"

namespace rondo {
namespace {

// What is scaled in one turn: short enough for others to move meanwhile.
constexpr size_t kScaleBytes = 256 << 10;

}  // namespace

Executor::Executor(Options options) : options_(std::move(options)) {
  RONDO_CHECK(options_.device != nullptr);
  active_.reserve(64);
  queue_.reserve(64);
}

Executor::~Executor() {
  for (Operation* operation : active_) {
    operation->end(Status(Code::aborted, "the communicator was destroyed"));
    operation->unref();
  }
}

void Executor::submit(Operation& operation) {
  if (!operation.group->broken.ok()) {
    operation.end(operation.group->broken);
    return;
  }
  sweep();  // one that starts again may still be in the list
  operation.ref();
  operation.linked = true;
  ++running_;
  auto place = active_.end();
  while (place != active_.begin() && place[-1]->priority < operation.priority) --place;
  active_.insert(place, &operation);
}

bool Executor::start(Operation& operation) {
  Group& group = *operation.group;
  if (is_collective(operation.kind)) {
    if (group.in_flight >= kOperationsInFlight) return false;
    // In the order of the calls whatever their priorities, so that all ranks run the same ones.
    for (const Operation* other : active_)
      if (other->group == &group && other->linked && !other->started && is_collective(other->kind) &&
          other->seq < operation.seq)
        return false;
    ++group.in_flight;
  }
  operation.started = true;
  if (operation.kind != OperationKind::schedule) return true;
  const Binding& binding = operation.binding;
  const size_t largest = std::max(binding.input.layout.chunk_count_max(), binding.output.layout.chunk_count_max());
  const uint32_t slices = slice_count(largest, binding.piece);
  operation.walker.reset(*operation.schedule,
                         {.slices = slices, .window = binding.window, .in_place = binding.in_place});
  operation.walker_window = std::min(slices, binding.window);
  operation.gathers.resize(static_cast<size_t>(operation.walker_window) * operation.schedule->lanes);
  operation.scratch_stride = (std::min(largest, binding.piece) * size_of(binding.dtype) + 127) / 128 * 128;
  operation.scratch.resize(operation.schedule->scratch.size() * operation.walker_window * operation.scratch_stride);
  return true;
}

// Scales the next piece of the input or of the result. Reads and writes nothing else, so no peer is involved.
bool Executor::scale_piece(Operation& operation) {
  const Persistence& plan = *operation.persistence;
  const bool before = operation.phase == Operation::Phase::prescale;
  const size_t size = size_of(operation.binding.dtype), at = operation.scaled * size;
  const size_t whole = before ? plan.given_count : plan.result_count;
  const size_t count = std::min(whole - operation.scaled, kScaleBytes / size);
  std::byte* result = operation.binding.output.base;
  if (before) {
    options_.device->scale(operation.binding.dtype, plan.scaled + at, plan.given + at, count, plan.prescale);
  } else {
    options_.device->scale(operation.binding.dtype, result + at, result + at, count, plan.postscale);
  }
  operation.scaled += count;
  if (operation.scaled < whole) return true;
  operation.scaled = 0;
  operation.phase = Operation::Phase::work;
  if (!before) finish(operation, Status());
  return true;
}

// The collective's own work is done.
void Executor::complete(Operation& operation) {
  const Persistence* plan = operation.persistence.get();
  if (plan != nullptr && plan->postscale != 1 && plan->result_count > 0) {
    operation.phase = Operation::Phase::postscale;
  } else {
    finish(operation, Status());
  }
}

bool Executor::has_given_all(const Operation& operation) const {
  return operation.phase != Operation::Phase::prescale &&
         ((operation.kind == OperationKind::one_shot && operation.published) ||
          (operation.kind == OperationKind::shared && operation.group->shared->has_given_all(operation.turn)));
}

void Executor::finish(Operation& operation, Status status) {
  if (operation.started && is_collective(operation.kind)) --operation.group->in_flight;
  operation.linked = false;
  --running_;
  ++ended_;
  sweep_needed_ = true;
  operation.end(std::move(status));
}

// Takes ended operations out of the list. Not done while the list is walked.
void Executor::sweep() {
  if (!sweep_needed_) return;
  sweep_needed_ = false;
  size_t kept = 0;
  for (Operation* operation : active_) {
    if (operation->linked) {
      active_[kept++] = operation;
    } else {
      operation->unref();
    }
  }
  active_.resize(kept);
}

bool Executor::drive(Operation& operation) {
  if (!operation.linked || operation.suspect) return false;
  bool moved = false;
  if (operation.phase != Operation::Phase::work) {
    moved = scale_piece(operation);
    if (moved) operation.moves.fetch_add(1, std::memory_order_relaxed);
    return moved;
  }
  if (!operation.started && !start(operation)) return false;
  switch (operation.kind) {
    case OperationKind::schedule:
      moved = drive_schedule(operation);
      break;
    case OperationKind::one_shot:
      moved = drive_one_shot(operation);
      break;
    case OperationKind::shared:
      moved = drive_shared(operation);
      break;
    case OperationKind::send:
      moved = drive_send(operation);
      break;
    case OperationKind::recv:
      moved = drive_recv(operation);
      break;
  }
  if (moved) operation.moves.fetch_add(1, std::memory_order_relaxed);
  if (!operation.error.ok()) {
    const Status cause = operation.error;
    fail_group(*operation.group, cause);
    return true;
  }
  return moved;
}

bool Executor::progress() {
  bool moved = false;
  for (Transport* transport : options_.transports) {
    completions_.clear();
    moved |= transport->progress(completions_);
    for (const Completion& completion : completions_) send_complete(static_cast<uint32_t>(completion.token));
    moved |= !completions_.empty();
  }
  device_done_.clear();
  if (options_.device->progress(device_done_)) {
    for (const Device::Token token : device_done_) {
      const DeviceWork work = device_work_[token];
      device_work_[token].operation = nullptr;
      if (work.operation == nullptr) continue;
      const Step& step = work.operation->schedule->steps[work.instance.step];
      const bool sending =
          conclude(*work.operation, work.instance, step, extent(*work.operation, step, work.instance.slice));
      work.operation->walker.finished(work.instance, sending);
    }
    moved = true;
  }
  if (!queue_.empty()) moved |= flush_queue();
  for (size_t i = 0; i < active_.size(); ++i) moved |= drive(*active_[i]);
  sweep();
  return moved;
}

bool Executor::drive_schedule(Operation& operation) {
  const bool moved =
      operation.walker.advance([&](const Instance& at, const Step& step) { return run(operation, at, step); });
  if (operation.error.ok() && operation.walker.complete()) complete(operation);
  return moved;
}

bool Executor::drive_one_shot(Operation& operation) {
  Group& group = *operation.group;
  OneShotCells& shared = *group.cells;
  const Binding& binding = operation.binding;
  const size_t bytes = binding.input.layout.count * size_of(binding.dtype);
  if (!operation.published) {
    if (shared.turns_complete + 1 != operation.turn) return false;
    shared.cells.publish(operation.turn, operation.fingerprint, binding.input.base, bytes);
    operation.published = true;
    shared.area->wake();
  }
  for (; operation.seen < group.world(); ++operation.seen) {
    const Cells::Seen seen = shared.cells.ready(operation.seen, operation.turn);
    if (seen.payload == nullptr) return false;
    if (seen.fingerprint != operation.fingerprint) {
      suspect(operation, operation.seen, Status());
      return false;
    }
    shared.sources[operation.seen] = seen.payload;
  }
  kernels::ReduceArgs args{.sources = shared.sources.data(),
                           .source_count = group.world(),
                           .dst = binding.output.base,
                           .dst2 = nullptr,
                           .count = binding.input.layout.count,
                           .divisor = binding.divisor};
  options_.device->reduce(binding.dtype, binding.op, args, 0);
  shared.turns_complete = operation.turn;
  complete(operation);
  return true;
}

bool Executor::drive_shared(Operation& operation) {
  SharedCollective& shared = *operation.group->shared;
  if (!shared.begun(operation.turn)) {
    if (!shared.may_begin(operation.turn)) return false;
    const Binding& binding = operation.binding;
    shared.begin(operation.turn, {.collective = operation.call.collective,
                                  .input = binding.input.base,
                                  .output = binding.output.base,
                                  .count = binding.input.layout.count,
                                  .dtype = binding.dtype,
                                  .op = binding.op,
                                  .divisor = binding.divisor,
                                  .root = operation.call.root,
                                  .piece_bytes = binding.piece * size_of(binding.dtype),
                                  .form = operation.form,
                                  .fingerprint = operation.fingerprint});
    shared.area().wake();
  }
  const SharedCollective::Step step = shared.advance();
  if (shared.differing()) suspect(operation, *shared.differing(), Status());
  if (step == SharedCollective::Step::complete) complete(operation);
  return step != SharedCollective::Step::still;
}

void Executor::suspect(Operation& operation, Rank rank, Status evidence) {
  if (operation.suspect) return;
  operation.suspect = rank;
  operation.evidence = std::move(evidence);
  suspicious_ = true;
}

void Executor::withdraw_all(Operation& operation) {
  for (size_t i = 0; i < operation.gathers.size(); ++i) {
    Gather& waiting = operation.gathers[i];
    if (!waiting.exposed) continue;
    const uint32_t lane = static_cast<uint32_t>(i % operation.schedule->lanes);
    operation.walker.heads([&](const Instance& at, const Step& step) {
      if (&operation.gather(at) != &waiting || at.lane != lane) return;
      const Member& member = operation.group->members[operation.schedule->list(step.from)[0]];
      const StreamKey key = key_of(frame_of(operation, at, 0));
      // Bounded: the peer's write of a message that has begun ends, or its endpoint fails.
      for (int i = 0; i < 1000000 && !member.endpoint->withdraw(key); ++i) {
        completions_.clear();
        member.transport->progress(completions_);
        for (const Completion& completion : completions_) send_complete(static_cast<uint32_t>(completion.token));
      }
    });
    waiting.exposed = false;
  }
}

void Executor::fail_group(Group& group, const Status& status) {
  if (group.broken.ok()) group.broken = status;
  for (Operation* operation : active_) {
    if (operation->group != &group || !operation->linked) continue;
    if (operation->kind == OperationKind::schedule && operation->started) {
      operation->walker.heads([&](const Instance& at, const Step& step) { give_back(*operation, at, step); });
      withdraw_all(*operation);
    }
  }
  drop_sends(group);
  if (group.shared != nullptr) group.shared->abandon();
  for (DeviceWork& work : device_work_)
    if (work.operation != nullptr && work.operation->group == &group) work.operation = nullptr;
  for (Operation* operation : active_)
    if (operation->group == &group && operation->linked) finish(*operation, group.broken);
  suspicious_ = std::any_of(active_.begin(), active_.end(),
                            [](const Operation* operation) { return operation->linked && operation->suspect; });
}

std::vector<Rank> Executor::awaited(const Operation& operation) const {
  std::vector<Rank> ranks;
  const Group& group = *operation.group;
  auto add = [&](Rank rank) {
    if (rank != group.rank && std::find(ranks.begin(), ranks.end(), rank) == ranks.end()) ranks.push_back(rank);
  };
  if (!operation.started) return ranks;
  switch (operation.kind) {
    case OperationKind::one_shot:
      for (uint32_t member = 0; member < group.world(); ++member)
        if (group.cells->cells.ready(member, operation.turn).payload == nullptr) add(member);
      break;
    case OperationKind::shared:
      if (group.shared->begun(operation.turn))
        for (const Rank member : group.shared->awaited()) add(member);
      break;
    case OperationKind::send:
    case OperationKind::recv:
      if (operation.user.peer) add(*operation.user.peer);
      break;
    case OperationKind::schedule:
      operation.walker.heads([&](const Instance& at, const Step& step) {
        const auto from = operation.schedule->list(step.from);
        const Gather& waiting = const_cast<Operation&>(operation).gather(at);
        for (size_t i = 0; i < from.size(); ++i)
          if (!waiting.asked || waiting.messages[i].frame.version == 0) add(from[i]);
      });
      break;
  }
  std::sort(ranks.begin(), ranks.end());
  return ranks;
}

}  // namespace rondo
