// The short way of a collective on shared memory: by cells or through the workspace, awaited for as long as it moves or
// for the length of a spin, all in the caller's thread, without an Operation. It repeats what a first call of the same
// kind has gone through in full.
#include <sched.h>

#include "comm/communicator.h"

namespace rondo {

static_assert(kOneShotBytes == Cells::kPayloadBytes);

namespace {

bool overlap(uintptr_t a, size_t a_bytes, uintptr_t b, size_t b_bytes) { return a < b + b_bytes && b < a + a_bytes; }

}  // namespace

size_t Communicator::kind_index(const RepeatArgs& args) {
  return (args.count ^ static_cast<size_t>(args.dtype) << 1 ^ static_cast<size_t>(args.op) << 4 ^
          static_cast<size_t>(args.collective) << 2 ^ static_cast<size_t>(args.root)) %
         kKinds;
}

// With the lease held, for a call that has passed all checks and that the tuner gives to an intrinsic.
void Communicator::remember_kind(const Request& request, const Call& call, const Choice& choice) {
  const Collective c = request.collective;
  const int dtype = static_cast<int>(request.dtype), op = static_cast<int>(request.op);
  const RepeatArgs key{.collective = c, .count = request.count, .dtype = dtype, .op = op, .root = request.root};
  const size_t block = request.count * size_of(request.dtype);
  const auto own_block = static_cast<intptr_t>(rank() * block);
  const bool gives_blocks = c == Collective::reduce_scatter || c == Collective::alltoall;
  const bool takes_blocks = c == Collective::allgather || c == Collective::alltoall;
  kinds_[kind_index(key)] = {.key = key,
                             .in_bytes = block * (gives_blocks ? world() : 1),
                             .out_bytes = block * (takes_blocks ? world() : 1),
                             .has_in_place = c != Collective::alltoall,
                             .in_place = c == Collective::allgather        ? own_block
                                         : c == Collective::reduce_scatter ? -own_block
                                                                           : 0,
                             .means = choice.algorithm->means,
                             .piece_bytes = choice.piece_bytes,
                             .divisor = request.op == RedOp::avg && reduces(c) ? world() : 0,
                             .call = call,
                             .packed = CallBoard::pack(call),
                             .digest = digest(call),
                             .reduce = kernels::best().reduce[dtype][op]};
}

// Whether check() would pass the buffers of another call of a kind that it has passed before.
bool Communicator::fits(const RepeatedKind& kind, const RepeatArgs& args) {
  const RepeatArgs& key = kind.key;
  if (key.count != args.count || key.dtype != args.dtype || key.op != args.op || key.collective != args.collective ||
      key.root != args.root)
    return false;
  const auto in = reinterpret_cast<uintptr_t>(args.in), out = reinterpret_cast<uintptr_t>(args.out);
  if ((in == 0 && kind.in_bytes > 0) || (out == 0 && kind.out_bytes > 0)) return false;
  if (kind.has_in_place && static_cast<intptr_t>(in - out) == kind.in_place) return true;
  return !overlap(in, kind.in_bytes, out, kind.out_bytes);
}

// One more look in vain, after `tries` others: whether to look again. First for the length of a spin, then of some
// yields: where ranks outnumber processors a yield lets the awaited rank run.
bool Fabric::look_again(uint32_t tries, SharedArea& area) {
  if (tries >= spins_ + yields_ || lease_.wanted()) return false;
  if (tries < spins_) {
    __builtin_ia32_pause();
    return true;
  }
  if (tries == spins_) area.wake();  // who has been here for long may sleep
  sched_yield();
  return true;
}

// As long as look_again() says: whether every member has published `turn` under the same fingerprint.
// Their payloads are then in the sources.
bool Fabric::await_cells(Group& group, uint64_t turn, uint64_t fingerprint) {
  OneShotCells& shared = *group.cells;
  uint32_t tries = 0;
  for (Rank member = 0; member < group.world(); ++member) {
    if (member == group.rank) continue;
    while (!shared.cells.arrived(member, turn)) {
      if (!look_again(tries++, *shared.area)) return false;
    }
    const Cells::Seen seen = shared.cells.ready(member, turn);
    if (seen.fingerprint != fingerprint) return false;  // the operation that takes over looks at the boards
    shared.sources[member] = seen.payload;
  }
  return true;
}

// As long as look_again() says: whether the next turn can begin. It cannot while calls are pending.
bool Fabric::may_begin(SharedCollective& shared) {
  for (uint32_t tries = 0; !shared.may_begin(shared.next_turn());)
    if (!shared.idle() || !look_again(tries++, shared.area())) return false;
  return true;
}

// As long as look_again() says, counted from the latest move: whether the turn that has begun is complete.
bool Fabric::complete(SharedCollective& shared) {
  for (uint32_t tries = 0;;) {
    const SharedCollective::Step step = shared.advance();
    if (step == SharedCollective::Step::complete) return true;
    if (step == SharedCollective::Step::moved) {
      tries = 0;
      if (lease_.wanted()) return false;
    } else if (!look_again(tries++, shared.area())) {
      return false;
    }
  }
}

bool Communicator::repeat(const RepeatArgs& args, Status* status) {
  if (group_->cells == nullptr || in_a_group() || fabric_->forked()) return false;
  OperationRef rest;
  if (!fabric_->with_lease([&] { return repeat_with_lease(args, &rest); })) return false;
  if (rest.get() != nullptr) {
    fabric_->wait(*rest.get(), -1);
    *status = rest->status();
  }
  return true;
}

bool Communicator::repeat_with_lease(const RepeatArgs& args, OperationRef* rest) {
  const RepeatedKind& kind = kinds_[kind_index(args)];
  if (!fits(kind, args)) return false;  // seen for the first time, or for check() to judge
  OneShotCells& shared = *group_->cells;
  const bool by_cells = kind.means == Means::cells;
  if (!group_->broken.ok()) return false;
  if (by_cells ? shared.turns_complete + 1 != shared.next_turn : !fabric_->may_begin(*group_->shared)) return false;
  // Before anything is published: without memory for the slow case nothing has happened.
  if (spare_.get() == nullptr) spare_ = OperationRef(new Operation);
  const uint64_t fingerprint = chain(group_->chain, kind.digest), seq = group_->next_seq++;
  group_->chain = fingerprint;
  if (!by_cells) {
    repeat_turn(args, kind, {.seq = seq, .fingerprint = fingerprint, .call = kind.call}, rest);
    return true;
  }
  const uint64_t turn = shared.next_turn++;
  shared.cells.publish(turn, fingerprint, args.in, kind.in_bytes);
  group_->board->write(seq, fingerprint, kind.packed);  // while the published line travels
  if (!fabric_->await_cells(*group_, turn, fingerprint)) {
    *rest = start_rest(args, kind, {.seq = seq, .fingerprint = fingerprint, .call = kind.call}, turn);
    return true;
  }
  // The own input and not the own cell, which the others read just now.
  shared.sources[group_->rank] = args.in;
  kind.reduce({.sources = shared.sources.data(),
               .source_count = world(),
               .dst = args.out,
               .dst2 = nullptr,
               .count = args.count,
               .divisor = kind.divisor});
  shared.turns_complete = turn;
  shared.area->wake();
  return true;
}

void Communicator::repeat_turn(const RepeatArgs& args, const RepeatedKind& kind, const BoardEntry& entry,
                               OperationRef* rest) {
  SharedCollective& shared = *group_->shared;
  const uint64_t turn = shared.take_turn();
  shared.begin(turn, {.collective = args.collective,
                      .input = static_cast<const std::byte*>(args.in),
                      .output = static_cast<std::byte*>(args.out),
                      .count = args.count,
                      .dtype = static_cast<DType>(args.dtype),
                      .op = static_cast<RedOp>(args.op),
                      .divisor = kind.divisor,
                      .root = static_cast<uint32_t>(args.root),
                      .piece_bytes = kind.piece_bytes,
                      .form = form_of(kind.means),
                      .fingerprint = entry.fingerprint});
  group_->board->write(entry.seq, entry.fingerprint, kind.packed);  // while the entry travels
  if (!fabric_->complete(shared)) *rest = start_rest(args, kind, entry, turn);
}

// The others take longer: the published call becomes an ordinary operation.
OperationRef Communicator::start_rest(const RepeatArgs& args, const RepeatedKind& kind, const BoardEntry& entry,
                                      uint64_t turn) {
  OperationRef operation(std::move(spare_));
  const bool by_cells = kind.means == Means::cells;
  operation->kind = by_cells ? OperationKind::one_shot : OperationKind::shared;
  operation->group = group_.get();
  operation->call = entry.call;
  operation->seq = entry.seq;
  operation->fingerprint = entry.fingerprint;
  operation->turn = turn;
  operation->published = true;
  Request request{.collective = args.collective, .input = args.in, .output = args.out, .count = args.count};
  request.root = args.root;
  request.dtype = static_cast<DType>(args.dtype);
  request.op = static_cast<RedOp>(args.op);
  bind(request, world(), rank(), 1, operation->binding);
  (by_cells ? *group_->cells->area : group_->shared->area()).wake();
  fabric_->executor().submit(*operation.get());
  return operation;
}

}  // namespace rondo
