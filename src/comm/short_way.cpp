// The short way of an allreduce on shared memory: by cells or through the workspace, awaited for as long as it moves or
// for the length of a spin, all in the caller's thread, without an Operation. It repeats what a first call of the same
// kind has gone through in full.
#include <sched.h>

#include "comm/communicator.h"

namespace rondo {

static_assert(kOneShotBytes == Cells::kPayloadBytes);

size_t Communicator::kind_index(size_t count, int dtype, int op) {
  return (count ^ static_cast<size_t>(dtype) << 1 ^ static_cast<size_t>(op) << 4) % kKinds;
}

// With the lease held, for a call that has passed all checks and that the tuner gives to an intrinsic.
void Communicator::remember_kind(const Request& request, const Call& call, const Choice& choice) {
  const int dtype = static_cast<int>(request.dtype), op = static_cast<int>(request.op);
  kinds_[kind_index(request.count, dtype, op)] = {.count = request.count,
                                                  .dtype = dtype,
                                                  .op = op,
                                                  .bytes = request.count * size_of(request.dtype),
                                                  .means = choice.algorithm->means,
                                                  .piece_bytes = choice.piece_bytes,
                                                  .divisor = request.op == RedOp::avg ? world() : 0,
                                                  .call = call,
                                                  .packed = CallBoard::pack(call),
                                                  .digest = digest(call),
                                                  .reduce = kernels::best().reduce[dtype][op]};
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

// As long as look_again() says, counted from the latest move: whether the turn that has begun is complete.
bool Fabric::complete_sum(SharedSum& sum) {
  for (uint32_t tries = 0;;) {
    const SharedSum::Step step = sum.advance();
    if (step == SharedSum::Step::complete) return true;
    if (step == SharedSum::Step::moved) {
      tries = 0;
      if (lease_.wanted()) return false;
    } else if (!look_again(tries++, sum.area())) {
      return false;
    }
  }
}

bool Communicator::repeat_allreduce(const AllreduceArgs& args, Status* status) {
  if (group_->cells == nullptr || in_a_group() || fabric_->forked()) return false;
  OperationRef rest;
  if (!fabric_->with_lease([&] { return repeat_with_lease(args, &rest); })) return false;
  if (rest.get() != nullptr) {
    fabric_->wait(*rest.get(), -1);
    *status = rest->status();
  }
  return true;
}

bool Communicator::repeat_with_lease(const AllreduceArgs& args, OperationRef* rest) {
  const RepeatedKind& kind = kinds_[kind_index(args.count, args.dtype, args.op)];
  const uintptr_t in = reinterpret_cast<uintptr_t>(args.in), out = reinterpret_cast<uintptr_t>(args.out);
  if (kind.count != args.count || kind.dtype != args.dtype || kind.op != args.op || in == 0 || out == 0 ||
      (in != out && in + kind.bytes > out && out + kind.bytes > in))
    return false;  // seen for the first time, or for check() to judge
  OneShotCells& shared = *group_->cells;
  const bool by_cells = kind.means == Means::cells;
  if (!group_->broken.ok()) return false;
  if (by_cells ? shared.turns_complete + 1 != shared.next_turn : !group_->shared_sum->idle()) return false;
  // Before anything is published: without memory for the slow case nothing has happened.
  if (spare_.get() == nullptr) spare_ = OperationRef(new Operation);
  const uint64_t fingerprint = chain(group_->chain, kind.digest), seq = group_->next_seq++;
  group_->chain = fingerprint;
  if (!by_cells) {
    repeat_sum(args, kind, {.seq = seq, .fingerprint = fingerprint, .call = kind.call}, rest);
    return true;
  }
  const uint64_t turn = shared.next_turn++;
  shared.cells.publish(turn, fingerprint, args.in, kind.bytes);
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

void Communicator::repeat_sum(const AllreduceArgs& args, const RepeatedKind& kind, const BoardEntry& entry,
                              OperationRef* rest) {
  SharedSum& sum = *group_->shared_sum;
  const uint64_t turn = sum.take_turn();
  sum.begin(turn, {.input = static_cast<const std::byte*>(args.in),
                   .output = static_cast<std::byte*>(args.out),
                   .count = args.count,
                   .dtype = static_cast<DType>(kind.dtype),
                   .op = static_cast<RedOp>(kind.op),
                   .divisor = kind.divisor,
                   .piece_bytes = kind.piece_bytes,
                   .form = form_of(kind.means),
                   .fingerprint = entry.fingerprint});
  group_->board->write(entry.seq, entry.fingerprint, kind.packed);  // while the entry travels
  if (!fabric_->complete_sum(sum)) *rest = start_rest(args, kind, entry, turn);
}

// The others take longer: the published call becomes an ordinary operation.
OperationRef Communicator::start_rest(const AllreduceArgs& args, const RepeatedKind& kind, const BoardEntry& entry,
                                      uint64_t turn) {
  OperationRef operation(std::move(spare_));
  const bool by_cells = kind.means == Means::cells;
  operation->kind = by_cells ? OperationKind::one_shot : OperationKind::shared_sum;
  operation->group = group_.get();
  operation->call = entry.call;
  operation->seq = entry.seq;
  operation->fingerprint = entry.fingerprint;
  operation->turn = turn;
  operation->published = true;
  Request request{.collective = Collective::allreduce, .input = args.in, .output = args.out, .count = args.count};
  request.dtype = static_cast<DType>(kind.dtype);
  request.op = static_cast<RedOp>(kind.op);
  bind(request, world(), rank(), 1, operation->binding);
  (by_cells ? *group_->cells->area : group_->shared_sum->area()).wake();
  fabric_->executor().submit(*operation.get());
  return operation;
}

}  // namespace rondo
