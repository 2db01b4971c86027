#include "comm/communicator.h"

#include <algorithm>

#include <fmt/core.h>

#include "base/check.h"

namespace rondo {
Communicator::Communicator(std::shared_ptr<Fabric> fabric, std::shared_ptr<Group> group, CommunicatorSettings settings)
    : fabric_(std::move(fabric)), group_(std::move(group)), settings_(std::move(settings)) {
  gather_facts();
}

Communicator::~Communicator() {
  if (!fabric_->forked()) fabric_->drop_group(group_);
}

Result<std::unique_ptr<Communicator>> Communicator::over(std::shared_ptr<Fabric> fabric, uint32_t id,
                                                         std::vector<Rank> ranks, CommunicatorSettings settings) {
  auto group = fabric->make_group(id, std::move(ranks));
  if (!group.ok()) return group.status();
  return std::unique_ptr<Communicator>(
      new Communicator(std::move(fabric), std::move(group).value(), std::move(settings)));
}

Result<std::unique_ptr<Communicator>> Communicator::create(std::shared_ptr<Fabric> fabric,
                                                           CommunicatorSettings settings) {
  std::vector<Rank> all(fabric->world());
  for (Rank rank = 0; rank < fabric->world(); ++rank) all[rank] = rank;
  const uint32_t id = fabric->next_group_id();
  fabric->group_id_used(id);
  return over(std::move(fabric), id, std::move(all), std::move(settings));
}

void Communicator::gather_facts() {
  facts_.world = world();
  facts_.cells = group_->cells != nullptr;
  facts_.workspace = group_->shared != nullptr && world() <= SharedCollective::kMostMembers;
  facts_.ranks_a_cpu = fabric_->ranks_a_cpu();
  facts_.one_memory = true;
  facts_.determinism = settings_.determinism;
  tuning_key_ = fabric_->tuning_key(group_->fabric_ranks());
  facts_.tuned = fabric_->tuning().section(tuning_key_);
  facts_.message_bytes = SIZE_MAX;
  local_rank_ = 0;
  local_world_ = 0;
  for (Rank rank = 0; rank < world(); ++rank) {
    const Member& member = group_->members[rank];
    if (fabric_->same_host(member.fabric_rank)) {
      if (rank < this->rank()) ++local_rank_;
      ++local_world_;
    }
  }
  facts_.one_memory = facts_.cells || world() == 1;
  // Equal on all ranks by construction: what a mixed communicator can take is what its narrowest kind of link takes.
  facts_.message_bytes = 64 << 10;
  const Config& config = fabric_->config();
  facts_.piece_bytes = static_cast<size_t>(config.bytes(Key::slice_bytes));
  facts_.window = static_cast<uint32_t>(config.integer(Key::window));
}

Status Communicator::cause() const {
  return fabric_->with_lease([&] { return group_->broken; });
}

Status Communicator::usable() const {
  if (fabric_->forked())
    return fail(Code::unsupported, "this process is a fork of the one that made the communicator; make a new one here");
  if (health() != Code::ok) return cause();
  return {};
}

bool Communicator::this_thread_in_a_group() const {
  std::lock_guard<std::mutex> lock(deferred_mutex_);
  return deferred_.contains(std::this_thread::get_id());
}

// With the lease held: the operation's place among those that use the same shared memory.
void take_turn(Operation& operation) {
  if (operation.kind == OperationKind::one_shot) operation.turn = operation.group->cells->next_turn++;
  if (operation.kind == OperationKind::shared) operation.turn = operation.group->shared->take_turn();
}

// With the lease held: the call's place in the sequence and its fingerprint; the board makes it known.
BoardEntry Communicator::record(const Call& call) {
  group_->chain = chain(group_->chain, digest(call));
  return {.seq = group_->next_seq++, .fingerprint = group_->chain, .call = call};
}

Status Communicator::run(const Request& request) {
  auto operation = collective(request, Block::yes);
  return operation.ok() ? (*operation)->status() : operation.status();
}

CommFacts Communicator::facts_for(const Request& request) const {
  CommFacts facts = facts_;
  facts.workspace = facts.workspace && !request.vector_form;  // where all blocks have one size
  return facts;
}

Shape Communicator::shape_of(const Request& request, const Choice& choice) const {
  return {.collective = request.collective,
          .world = world(),
          .lanes = choice.lanes,
          .root = static_cast<uint32_t>(rooted(request.collective) ? request.root : 0)};
}

// What runs the operation, in what pieces, on which memory. `schedule`: of an algorithm by steps.
void Communicator::lay_out(Operation& operation, const Request& request, const Choice& choice,
                           const Schedule* schedule) const {
  const Algorithm& algorithm = *choice.algorithm;
  Binding& binding = operation.binding;
  binding.piece = std::max<size_t>(choice.piece_bytes / size_of(request.dtype), 1);
  binding.window = choice.window;
  operation.schedule = schedule;
  if (algorithm.means == Means::cells) {
    operation.kind = OperationKind::one_shot;
  } else if (algorithm.means != Means::steps) {
    operation.kind = OperationKind::shared;
    operation.form = form_of(algorithm.means);
  }
  bind(request, world(), rank(), schedule == nullptr ? 1 : schedule->chunks, binding);
}

// With the lease held: gives the call its place in the sequence and writes it on the board.
Status Communicator::prepare(Operation& operation, const Request& request) {
  const size_t bytes = choice_bytes(request, world());
  Remembered& latest = choices_[static_cast<size_t>(request.collective)];
  if (latest.bytes != bytes || latest.vector_form != request.vector_form) {
    auto chosen = choose(request.collective, bytes, facts_for(request), settings_.spec);
    if (!chosen.ok()) return chosen.status();
    latest = {bytes, request.vector_form, *chosen, chosen->hash()};
  }
  const Choice& choice = latest.choice;
  operation.call = call_of(request, world());
  operation.call.choice = latest.hash;
  const BoardEntry entry = record(operation.call);
  group_->board->write(entry);
  operation.seq = entry.seq;
  operation.fingerprint = entry.fingerprint;
  const bool by_steps = choice.algorithm->means == Means::steps;
  const Schedule* schedule = by_steps ? &schedules_.get(*choice.algorithm, shape_of(request, choice), rank()) : nullptr;
  lay_out(operation, request, choice, schedule);
  take_turn(operation);
  if (!by_steps && !request.vector_form) remember_kind(request, operation.call, choice);
  return {};
}

Result<OperationRef> Communicator::collective(const Request& request, Block block) {
  RONDO_TRY(usable());
  RONDO_TRY(check(request, world(), rank()));
  if (in_a_group())
    return fail(Code::invalid, "{}: collectives are not allowed between group_begin and group_end",
                name(request.collective));
  OperationRef operation(new Operation);
  operation->group = group_.get();
  RONDO_TRY(fabric_->submit(
      *operation.get(), [&] { return prepare(*operation.get(), request); }, block == Block::yes));
  return operation;
}

Result<OperationRef> Communicator::transfer(const Transfer& transfer, Block block) {
  RONDO_TRY(usable());
  const char* what = transfer.kind == OperationKind::send ? "send" : "recv";
  const bool any = transfer.peer == -1 && transfer.kind == OperationKind::recv;
  if (!any && (transfer.peer < 0 || transfer.peer >= world()))
    return fail(Code::invalid, "{}: peer {} is out of range, the world has {} ranks", what, transfer.peer, world());
  if (transfer.tag < 0) return fail(Code::invalid, "{}: tag {} is negative", what, transfer.tag);
  size_t bytes;
  if (__builtin_mul_overflow(transfer.count, size_of(transfer.dtype), &bytes))
    return fail(Code::invalid, "{}: count {} of {} is more than memory can hold", what, transfer.count,
                name(transfer.dtype));
  if (transfer.data == nullptr && bytes > 0)
    return fail(Code::invalid, "{}: buf is NULL but {} bytes are needed", what, bytes);
  OperationRef operation(new Operation);
  operation->kind = transfer.kind;
  operation->group = group_.get();
  operation->user = {.data = static_cast<std::byte*>(transfer.data),
                     .bytes = bytes,
                     .piece_bytes = facts_.message_bytes,
                     .tag = transfer.tag};
  if (!any) operation->user.peer = static_cast<Rank>(transfer.peer);
  const bool defer = block == Block::yes && in_a_group();
  RONDO_TRY(fabric_->submit(
      *operation.get(), [] { return Status(); }, block == Block::yes && !defer));
  if (defer) {
    std::lock_guard<std::mutex> lock(deferred_mutex_);
    operation->ref();
    deferred_[std::this_thread::get_id()].operations.emplace_back(operation.get());
    operation->deferred = true;
  }
  return operation;
}

Status Communicator::group_begin() {
  RONDO_TRY(usable());
  std::lock_guard<std::mutex> lock(deferred_mutex_);
  if (deferred_[std::this_thread::get_id()].depth++ == 0) groups_open_.fetch_add(1, std::memory_order_relaxed);
  return {};
}

Status Communicator::group_end() {
  if (fabric_->forked()) return usable();
  std::vector<OperationRef> operations;
  {
    std::lock_guard<std::mutex> lock(deferred_mutex_);
    const auto entry = deferred_.find(std::this_thread::get_id());
    if (entry == deferred_.end()) return fail(Code::invalid, "group_end without a group_begin on this thread");
    if (--entry->second.depth > 0) return {};
    operations = std::move(entry->second.operations);
    deferred_.erase(entry);
    groups_open_.fetch_sub(1, std::memory_order_relaxed);
  }
  Status first;
  for (const OperationRef& operation : operations) {
    fabric_->wait(*operation.get(), -1);
    if (first.ok() && !operation->status().ok()) first = operation->status();
  }
  return first;
}

Result<std::unique_ptr<Communicator>> Communicator::split(int32_t color, int32_t key) {
  struct Vote {
    int32_t color, key;
    uint32_t next_id;
  };
  const Vote mine{color, key, fabric_->with_lease([&] { return fabric_->next_group_id(); })};
  std::vector<Vote> votes(world());
  Request request{.collective = Collective::allgather,
                  .input = &mine,
                  .output = votes.data(),
                  .count = sizeof(Vote),
                  .dtype = DType::uint8};
  auto gathered = collective(request, Block::yes);
  if (!gathered.ok()) return gathered.status();
  if (!(*gathered)->status().ok()) return (*gathered)->status();
  uint32_t id = 0;
  std::vector<Rank> members;
  for (Rank rank = 0; rank < world(); ++rank) {
    id = std::max(id, votes[rank].next_id);
    if (votes[rank].color == color) members.push_back(rank);
  }
  fabric_->with_lease([&] { fabric_->group_id_used(id); });
  if (color < 0) return std::unique_ptr<Communicator>();
  std::stable_sort(members.begin(), members.end(), [&](Rank a, Rank b) { return votes[a].key < votes[b].key; });
  for (Rank& member : members) member = group_->members[member].fabric_rank;
  return over(fabric_, id, std::move(members), settings_);
}

Status Communicator::abort(const std::string& why) {
  if (fabric_->forked()) return usable();
  if (health() != Code::ok) return {};
  fabric_->break_group(*group_, fail(Code::aborted, "aborted by rank {}{}{}", rank(), why.empty() ? "" : ": ", why),
                       rank());
  return {};
}

Result<std::string> Communicator::explain(Collective collective, size_t bytes, DType dtype) const {
  auto choice = choose(collective, bytes, facts_, settings_.spec);
  if (!choice.ok()) return choice.status();
  const Algorithm& algorithm = *choice->algorithm;
  std::string text = fmt::format("{}: {}", name(collective), algorithm.name);
  if (algorithm.means == Means::steps)
    text += fmt::format(", {} lane{}, pieces of {} bytes, {} in flight", choice->lanes, choice->lanes == 1 ? "" : "s",
                        choice->piece_bytes, choice->window);
  text += fmt::format("\n  {} bytes of {}, {} ranks{}: {}\n  cost: {}\n", bytes, name(dtype), world(),
                      facts_.one_memory ? " that share memory" : "", choice->why, algorithm.cost);
  text += fmt::format("  sum order: {}\n", algorithm.order == SumOrder::canonical ? "canonical tree over ranks"
                                           : algorithm.order == SumOrder::own     ? "the algorithm's own"
                                                                                  : "none");
  std::string others, impossible, tunable;
  for (const Candidate& candidate : candidates(collective, bytes, facts_, settings_.spec)) {
    if (candidate.algorithm == &algorithm) continue;
    const std::string_view other = candidate.algorithm->name;
    if (candidate.obstacle.empty()) {
      others += fmt::format("{}{}", others.empty() ? "" : ", ", other);
      if (same_sums(algorithm, *candidate.algorithm))
        tunable += fmt::format("{}{}", tunable.empty() ? "" : ", ", other);
    } else {
      impossible += fmt::format("{}{} ({})", impossible.empty() ? "" : ", ", other, candidate.obstacle);
    }
  }
  if (!others.empty()) text += fmt::format("  also possible: {}\n", others);
  if (!impossible.empty()) text += fmt::format("  not possible: {}\n", impossible);
  if (!tunable.empty()) text += fmt::format("  tuning may take: {}\n", tunable);
  const std::string rows = facts_.tuned == nullptr ? "" : facts_.tuned->rows_of(collective);
  text += fmt::format("  tuning section: [{}]\n  tuning rows: {}\n", tuning_key_, rows.empty() ? "none" : rows);
  return text + fabric_->describe_links(*group_);
}

}  // namespace rondo
