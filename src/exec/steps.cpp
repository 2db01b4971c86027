// How the executor runs one step of a Schedule: gather the messages, make room for what is sent on, compute, conclude.
#include <algorithm>

#include "base/check.h"
#include "exec/executor.h"

namespace rondo {

// The slice of the step's value: of the dst chunk with kStore, else of the src chunk.
Executor::Extent Executor::extent(const Operation& operation, const Step& step, uint32_t slice) const {
  const Place place = has(step, kStore) ? step.dst_place : step.src_place;
  const uint32_t chunk = has(step, kStore) ? step.dst_chunk : step.src_chunk;
  const Binding& binding = operation.binding;
  const Range whole = place == Place::output  ? binding.output.layout.chunk(chunk)
                      : place == Place::input ? binding.input.layout.chunk(chunk)
                                              : binding.input.layout.chunk(operation.schedule->scratch[chunk]);
  if (!slice_exists(whole.count, binding.piece, slice)) return {};
  const Range part = slice_of(whole.count, binding.piece, slice);
  return {part.begin, part.count, part.count * size_of(binding.dtype), true};
}

std::byte* Executor::address(const Operation& operation, Place place, uint32_t chunk, const Extent& extent,
                             uint32_t slice) const {
  if (place == Place::scratch) {
    const size_t slot = static_cast<size_t>(chunk) * operation.walker_window + slice % operation.walker_window;
    return const_cast<std::byte*>(operation.scratch.data()) + slot * operation.scratch_stride;
  }
  const PlaceBinding& bound = place == Place::input ? operation.binding.input : operation.binding.output;
  if (bound.base == nullptr) return nullptr;
  return bound.base +
         (bound.layout.chunk(chunk).begin - bound.origin + extent.begin) * size_of(operation.binding.dtype);
}

Frame Executor::frame_of(const Operation& operation, const Instance& at, size_t bytes) const {
  Frame frame;
  frame.kind = FrameKind::step;
  frame.lane = static_cast<uint8_t>(at.lane);
  frame.epoch = operation.group->epoch;
  frame.comm = operation.group->id;
  frame.seq = static_cast<uint32_t>(operation.seq);
  frame.slice = at.slice;
  frame.bytes = bytes;
  frame.fingerprint = operation.fingerprint;
  return frame;
}

Outcome Executor::run(Operation& operation, const Instance& at, const Step& step) {
  if (!operation.error.ok() || operation.suspect) return Outcome::blocked;
  if (step.verbs == 0) return Outcome::done;
  const Extent piece = extent(operation, step, at.slice);
  if (!piece.exists) return Outcome::done;
  const bool ready =
      (!has(step, kRecv) || gather(operation, at, step, piece)) &&
      (!has(step, kSend) || make_room(operation, at, step, piece, targets(operation, step, piece.bytes)));
  if (!ready) {
    if (has(step, kRecv)) keep_what_is_wanted_back(operation, at, step);
    return Outcome::blocked;
  }
  if (!compute(operation, at, step, piece)) return Outcome::pending;
  return conclude(operation, at, step, piece) ? Outcome::sending : Outcome::done;
}

bool Executor::check_message(Operation& operation, Rank from, const Message& message, size_t bytes) {
  if (message.frame.fingerprint == operation.fingerprint && message.frame.bytes == bytes &&
      message.frame.epoch == operation.group->epoch)
    return true;
  suspect(operation, from, Status());
  return false;
}

// Takes what has arrived for the instance; true when nothing is missing.
bool Executor::gather(Operation& operation, const Instance& at, const Step& step, const Extent& piece) {
  Gather& waiting = operation.gather(at);
  const auto from = operation.schedule->list(step.from);
  if (!waiting.asked) {
    waiting.messages.assign(from.size(), Message{.frame = {.version = 0}});
    waiting.kept.assign(from.size(), nullptr);
    waiting.blocked = 0;
    waiting.arrived = 0;
    waiting.asked = true;
  }
  const StreamKey key = key_of(frame_of(operation, at, 0));
  for (size_t i = 0; i < from.size(); ++i) {
    Message& message = waiting.messages[i];
    if (message.frame.version != 0) continue;
    if (from[i] == operation.schedule->rank) {
      message.frame.version = kFrameVersion;  // the own operand is there from the start
      ++waiting.arrived;
      continue;
    }
    Endpoint& endpoint = *operation.group->members[from[i]].endpoint;
    if (!endpoint.poll(key, &message)) {
      message.frame.version = 0;
      if (!endpoint.status().ok()) suspect(operation, from[i], endpoint.status());
      continue;
    }
    ++waiting.arrived;
    waiting.exposed = false;
    if (!check_message(operation, from[i], message, piece.bytes)) return false;
  }
  if (waiting.arrived == from.size()) return true;
  offer_destination(operation, at, step, piece);
  return false;
}

// The instance waits for more messages, or for a slot, and holds messages whose senders have run out of slots
// themselves.
void Executor::keep_what_is_wanted_back(Operation& operation, const Instance& at, const Step& step) {
  constexpr uint32_t kLookEvery = 16;
  Gather& waiting = operation.gather(at);
  if (!waiting.asked || ++waiting.blocked % kLookEvery != 0) return;
  const auto from = operation.schedule->list(step.from);
  for (size_t i = 0; i < from.size(); ++i) {
    Message& message = waiting.messages[i];
    if (from[i] == operation.schedule->rank || message.frame.version == 0 || waiting.kept[i] != nullptr) continue;
    Endpoint& endpoint = *operation.group->members[from[i]].endpoint;
    // Of the message's own size: one that does not fit the call has been taken too.
    const size_t bytes = message.frame.bytes;
    if (message.placed || bytes == 0 || !endpoint.wanted_back()) continue;
    waiting.kept[i] = take_staging(bytes);
    kernels::best().copy(waiting.kept[i], nullptr, message.data, bytes);
    endpoint.release(message);
    message.data = waiting.kept[i];
  }
}

// The messages of the instance have been used, or are not wanted any more.
void Executor::let_go(Operation& operation, Gather& way, const Step& step) {
  const auto from = operation.schedule->list(step.from);
  for (size_t i = 0; i < from.size(); ++i) {
    if (from[i] == operation.schedule->rank || way.messages[i].frame.version == 0) continue;
    if (way.kept[i] != nullptr) {
      return_staging(way.kept[i]);
    } else {
      operation.group->members[from[i]].endpoint->release(way.messages[i]);
    }
  }
  way.asked = false;
}

void Executor::offer_destination(Operation& operation, const Instance& at, const Step& step, const Extent& piece) {
  Gather& waiting = operation.gather(at);
  if (waiting.exposed || !has(step, kStore) || has(step, kReduce) || piece.bytes < options_.expose_bytes) return;
  const Member& member = operation.group->members[operation.schedule->list(step.from)[0]];
  if (!member.transport->caps().expose) return;
  std::byte* dst = address(operation, step.dst_place, step.dst_chunk, piece, at.slice);
  waiting.exposed = member.endpoint->expose(key_of(frame_of(operation, at, 0)), dst, piece.bytes);
}

Executor::Targets Executor::targets(const Operation& operation, const Step& step, size_t bytes) const {
  Targets found;
  for (const uint32_t rank : operation.schedule->list(step.to)) {
    Transport* transport = operation.group->members[rank].transport;
    const Caps& caps = transport->caps();
    const bool slotted = caps.slots && bytes > caps.inject_bytes &&
                         (found.slotted == nullptr || (found.slotted == transport && caps.multicast));
    if (slotted) {
      found.slotted = transport;
      ++found.readers;
    } else {
      ++found.direct;
    }
  }
  return found;
}

// Reserves the slot, and the staging memory where a result that is stored nowhere must outlive the step.
bool Executor::make_room(Operation& operation, const Instance& at, const Step& step, const Extent& piece,
                         const Targets& to) {
  Gather& way = operation.gather(at);
  way.slot = {};
  if (to.slotted != nullptr) {
    for (const uint32_t rank : operation.schedule->list(step.to))
      if (behind(*operation.group->members[rank].endpoint)) return false;
    way.slot = to.slotted->reserve(piece.bytes, to.readers);
    if (way.slot.data == nullptr) return false;
  }
  if (to.direct > 0 && has(step, kRecv) && !has(step, kStore)) way.staging = take_staging(piece.bytes);
  return true;
}

// Starts the copy or reduction; false when the device answers "pending".
bool Executor::compute(Operation& operation, const Instance& at, const Step& step, const Extent& piece) {
  Gather& way = operation.gather(at);
  std::byte* store = has(step, kStore) ? address(operation, step.dst_place, step.dst_chunk, piece, at.slice) : nullptr;
  const std::byte* own = reads_source(*operation.schedule, step)
                             ? address(operation, step.src_place, step.src_chunk, piece, at.slice)
                             : nullptr;
  std::byte* first = store != nullptr ? store : way.staging;
  std::byte* second = way.slot.data;
  way.primary = first != nullptr ? first : const_cast<std::byte*>(own);
  if (piece.count == 0) return true;
  size_t token = 0;
  while (token < device_work_.size() && device_work_[token].operation != nullptr) ++token;
  bool done = true;
  if (has(step, kReduce)) {
    const auto from = operation.schedule->list(step.from);
    sources_.resize(from.size());
    for (size_t i = 0; i < from.size(); ++i)
      sources_[i] = from[i] == operation.schedule->rank ? own : way.messages[i].data;
    if (first == nullptr) std::swap(first, second);
    kernels::ReduceArgs args{.sources = sources_.data(),
                             .source_count = static_cast<uint32_t>(from.size()),
                             .dst = first,
                             .dst2 = second,
                             .count = piece.count,
                             .divisor = (step.flags & kFinal) != 0 ? operation.binding.divisor : 0};
    done = options_.device->reduce(operation.binding.dtype, operation.binding.op, args, token);
  } else {
    const std::byte* source = has(step, kRecv) ? way.messages[0].data : own;
    if (first == source || (has(step, kRecv) && way.messages[0].placed)) {
      source = first;
      first = nullptr;
    }
    if (first == nullptr) std::swap(first, second);
    if (first != nullptr) done = options_.device->copy(first, second, source, piece.bytes, token);
  }
  if (!done && token == device_work_.size()) device_work_.push_back({});
  if (!done) device_work_[token] = {&operation, at};
  return done;
}

// Releases what was lent and sends what was made. True when sends still read the step's chunk.
bool Executor::conclude(Operation& operation, const Instance& at, const Step& step, const Extent& piece) {
  Gather& way = operation.gather(at);
  if (has(step, kRecv)) let_go(operation, way, step);
  if (!has(step, kSend)) return false;
  const Frame frame = frame_of(operation, at, piece.bytes);
  std::byte* staging = std::exchange(way.staging, nullptr);
  Transport* slotted = way.slot.data != nullptr ? targets(operation, step, piece.bytes).slotted : nullptr;
  const uint32_t batch = open_batch(staging == nullptr ? &operation : nullptr, at, staging);
  for (const uint32_t rank : operation.schedule->list(step.to)) {
    const Member& member = operation.group->members[rank];
    if (member.transport == slotted) {
      if (member.endpoint->commit(frame, way.slot) == Sent::failed) suspect(operation, rank, member.endpoint->status());
    } else {
      emit(operation, rank, frame, way.primary, batch);
    }
  }
  way.slot = {};
  return !close_batch(batch) && staging == nullptr;
}

// An operation ends before its time: what it has borrowed for the instance goes back.
void Executor::give_back(Operation& operation, const Instance& at, const Step& step) {
  Gather& way = operation.gather(at);
  if (way.asked) let_go(operation, way, step);
  if (way.slot.data != nullptr) {
    targets(operation, step, way.slot.bytes).slotted->cancel(way.slot);
    way.slot = {};
  }
  if (way.staging != nullptr) return_staging(std::exchange(way.staging, nullptr));
}

}  // namespace rondo
