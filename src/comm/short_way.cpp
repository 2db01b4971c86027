// The short way of a small allreduce on shared memory: published, awaited for the length of a spin, reduced, all in the
// caller's thread, without an Operation. It repeats what a first call of the same kind has gone through in full.
#include <sched.h>

#include "comm/communicator.h"

namespace rondo {

static_assert(kOneShotBytes == Cells::kPayloadBytes);

size_t Communicator::kind_index(size_t count, int dtype, int op) {
  return (count ^ static_cast<size_t>(dtype) << 1 ^ static_cast<size_t>(op) << 4) % kKinds;
}

// With the lease held, for a call that has passed all checks and that the tuner gives to the one-shot.
void Communicator::remember_kind(const Request& request, const Call& call) {
  const int dtype = static_cast<int>(request.dtype), op = static_cast<int>(request.op);
  kinds_[kind_index(request.count, dtype, op)] = {
      .count = request.count,
      .dtype = dtype,
      .op = op,
      .bytes = static_cast<uint32_t>(request.count * size_of(request.dtype)),
      .divisor = request.op == RedOp::avg ? world() : 0,
      .call = call,
      .packed = CallBoard::pack(call),
      .digest = digest(call),
      .reduce = kernels::best().reduce[dtype][op]};
}

// For the length of a spin, then of some yields: whether every member has published `turn` under the same fingerprint.
// Their payloads are then in the sources. Where ranks outnumber processors a yield lets the awaited rank run.
bool Fabric::await_cells(Group& group, uint64_t turn, uint64_t fingerprint) {
  OneShotCells& shared = *group.cells;
  uint32_t tries = 0;
  for (Rank member = 0; member < group.world(); ++member) {
    if (member == group.rank) continue;
    while (!shared.cells.arrived(member, turn)) {
      if (++tries > spins_ + yields_ || lease_.wanted()) return false;
      if (tries <= spins_) {
        __builtin_ia32_pause();
        continue;
      }
      if (tries == spins_ + 1) shared.area->wake();  // who has been here for long may sleep
      sched_yield();
    }
    const Cells::Seen seen = shared.cells.ready(member, turn);
    if (seen.fingerprint != fingerprint) return false;  // the operation that takes over looks at the boards
    shared.sources[member] = seen.payload;
  }
  return true;
}

bool Communicator::repeat_allreduce(const AllreduceArgs& args, Status* status) {
  if (group_->cells == nullptr || args.count > kOneShotBytes || in_a_group() || fabric_->forked()) return false;
  OperationRef rest;
  if (!fabric_->with_lease([&] { return repeat_with_lease(args, &rest); })) return false;
  if (rest.get() != nullptr) {
    fabric_->wait(*rest.get(), -1);
    *status = rest->status();
  }
  return true;
}

bool Communicator::repeat_with_lease(const AllreduceArgs& args, OperationRef* rest) {
  const OneShotKind& kind = kinds_[kind_index(args.count, args.dtype, args.op)];
  const uintptr_t in = reinterpret_cast<uintptr_t>(args.in), out = reinterpret_cast<uintptr_t>(args.out);
  if (kind.count != args.count || kind.dtype != args.dtype || kind.op != args.op || in == 0 || out == 0 ||
      (in != out && in + kind.bytes > out && out + kind.bytes > in))
    return false;  // seen for the first time, or for check() to judge
  OneShotCells& shared = *group_->cells;
  if (!group_->broken.ok() || shared.turns_complete + 1 != shared.next_turn) return false;
  // Before anything is published: without memory for the slow case nothing has happened.
  if (spare_.get() == nullptr) spare_ = OperationRef(new Operation);
  const uint64_t fingerprint = chain(group_->chain, kind.digest), turn = shared.next_turn++, seq = group_->next_seq++;
  group_->chain = fingerprint;
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

// The others take longer: the published call becomes an ordinary operation.
OperationRef Communicator::start_rest(const AllreduceArgs& args, const OneShotKind& kind, const BoardEntry& entry,
                                      uint64_t turn) {
  OperationRef operation(std::move(spare_));
  operation->kind = OperationKind::one_shot;
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
  group_->cells->area->wake();
  fabric_->executor().submit(*operation.get());
  return operation;
}

}  // namespace rondo
