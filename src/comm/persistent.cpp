#include "comm/persistent.h"

#include <bit>
#include <cmath>

#include "comm/communicator.h"

namespace rondo {
namespace {

Status check_scales(const Request& request, const CallOptions& options) {
  for (const auto& [what, factor] : {std::pair{"prescale", options.prescale}, {"postscale", options.postscale}}) {
    if (factor == 1) continue;
    if (!std::isfinite(factor))
      return fail(Code::invalid, "{}: {} is {}, expected a finite factor", name(request.collective), what, factor);
    if (!reduces(request.collective))
      return fail(Code::invalid, "{}: {} is {}, but only reductions scale; expected 1", name(request.collective), what,
                  factor);
    if (!info(request.dtype).floating)
      return fail(Code::invalid, "{}: {} is {}, but only floating types scale and the type is {}; expected 1",
                  name(request.collective), what, factor, name(request.dtype));
  }
  return {};
}

// Factors are part of what all ranks agree on.
uint32_t with_scales(uint32_t choice, const CallOptions& options) {
  if (options.prescale == 1 && options.postscale == 1) return choice;
  const uint64_t both = mix(std::bit_cast<uint64_t>(options.prescale)) + std::bit_cast<uint64_t>(options.postscale);
  return static_cast<uint32_t>(mix(both + choice));
}

// Where the scaled input goes: to the input itself where the call may write there, to the result's place where it is as
// large, else to memory of the operation's own.
void plan_scales(Operation& operation, const Request& request, uint32_t world, Rank rank, const CallOptions& options) {
  Persistence& plan = *operation.persistence;
  Binding& binding = operation.binding;
  const size_t size = size_of(request.dtype);
  plan.prescale = options.prescale;
  plan.postscale = options.postscale;
  const bool has_result = request.collective != Collective::reduce || static_cast<Rank>(request.root) == rank;
  const bool scatters = request.collective == Collective::reduce_scatter;
  const Layout& in = binding.input.layout;
  plan.given_count = scatters ? in.block_begin(world - 1) + in.block_count(world - 1) : request.count;
  plan.result_count = !has_result ? 0 : scatters ? binding.output.layout.block_count(rank) : request.count;
  if (options.prescale == 1 || plan.given_count == 0) {
    plan.prescale = 1;
    return;
  }
  plan.given = binding.input.base;
  if (has_result && (binding.in_place || !scatters)) {
    plan.scaled = scatters ? binding.input.base : binding.output.base;
    binding.in_place = true;
  } else {
    plan.staging.resize(plan.given_count * size);
    plan.scaled = plan.staging.data();
    binding.in_place = false;
  }
  binding.input.base = plan.scaled;
}

}  // namespace

Result<std::unique_ptr<PersistentCall>> Communicator::persistent(const Request& request, const CallOptions& options) {
  RONDO_TRY(usable());
  RONDO_TRY(check(request, world(), rank()));
  RONDO_TRY(check_scales(request, options));
  CommFacts facts = facts_for(request);
  if (options.determinism != 0) facts.determinism = options.determinism;
  const AlgorithmSpec& spec = options.spec.text().empty() ? settings_.spec : options.spec;
  auto choice = choose(request.collective, choice_bytes(request, world()), facts, spec);
  if (!choice.ok()) return choice.status();

  OperationRef operation(new Operation);
  operation->group = group_.get();
  operation->call = call_of(request, world());
  operation->call.choice = with_scales(choice->hash(), options);
  operation->timeout_ns = options.timeout_ns;
  operation->priority = options.priority;
  operation->persistence = std::make_unique<Persistence>();
  Persistence& plan = *operation->persistence;
  plan.name = options.name;
  const Algorithm& algorithm = *choice->algorithm;
  const bool by_steps = algorithm.means == Means::steps;
  if (by_steps) {
    Shape shape = shape_of(request, *choice);
    shape.chunks = algorithm.chunks(shape.world, shape.lanes);
    plan.schedule = algorithm.generate(shape, rank());
  }
  lay_out(*operation.get(), request, *choice, by_steps ? &plan.schedule : nullptr);
  plan_scales(*operation.get(), request, world(), rank(), options);
  operation->end(Status());  // never started: nothing is under way
  return std::make_unique<PersistentCall>(fabric_, group_, std::move(operation));
}

PersistentCall::PersistentCall(const std::shared_ptr<Fabric>& fabric, const std::shared_ptr<Group>& group,
                               OperationRef operation)
    : fabric_(fabric),
      group_(group),
      operation_(std::move(operation)),
      digest_(digest(operation_->call)),
      packed_(CallBoard::pack(operation_->call)) {}

Status PersistentCall::start() {
  const auto fabric = fabric_.lock();
  if (fabric != nullptr && fabric->forked())
    return fail(Code::unsupported, "start: this process is a fork of the one that made the operation");
  const auto group = group_.lock();
  if (fabric == nullptr || group == nullptr) return fail(Code::aborted, "start: the communicator was destroyed");
  return fabric->submit(
      *operation_.get(), [&] { return next_call(*group); }, false);
}

// With the lease held.
Status PersistentCall::next_call(Group& group) {
  Operation& operation = *operation_.get();
  if (!operation.ended())
    return fail(Code::invalid, "start: {} is still under way; wait for it first", describe(operation.call));
  if (!group.broken.ok()) return group.broken;
  operation.restart();
  group.chain = chain(group.chain, digest_);
  operation.seq = group.next_seq++;
  operation.fingerprint = group.chain;
  group.board->write(operation.seq, operation.fingerprint, packed_);
  take_turn(operation);
  return {};
}

}  // namespace rondo
