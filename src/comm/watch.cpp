// The watch on what does not move: boards are compared, late and lost ranks are named, deadlines end calls. And what
// the control plane brings. Lease held throughout.
#include <algorithm>

#include <fmt/core.h>

#include "comm/abort_text.h"
#include "comm/fabric.h"

namespace rondo {
namespace {

constexpr int64_t kMs = 1'000'000;
constexpr int64_t kFirstLookNs = 10 * kMs;
constexpr int64_t kLookSeldomNs = 500 * kMs;
constexpr int64_t kDepartedGraceNs = 200 * kMs;  // a farewell may overtake data on another socket
constexpr int64_t kSuspectNs = 1000 * kMs;       // how long the other side has to send its board
constexpr int64_t kWarnNs = 10'000 * kMs;
constexpr uint32_t kBoardEntriesSent = 8;

std::string list(const std::vector<Rank>& ranks) {
  std::string text = ranks.size() == 1 ? "rank " : "ranks ";
  for (size_t i = 0; i < ranks.size(); ++i) text += fmt::format("{}{}", i == 0 ? "" : ", ", ranks[i]);
  return text;
}

std::string what(const Operation& operation) {
  switch (operation.kind) {
    case OperationKind::send:
      return fmt::format("send of {} bytes to rank {} (tag {})", operation.user.bytes, *operation.user.peer,
                         operation.user.tag);
    case OperationKind::recv:
      return fmt::format("receive of {} bytes from {} (tag {})", operation.user.bytes,
                         operation.user.peer ? fmt::format("rank {}", *operation.user.peer) : "any rank",
                         operation.user.tag);
    default:
      const Persistence* plan = operation.persistence.get();
      return fmt::format("call {} {}{}", operation.seq, describe(operation.call),
                         plan == nullptr || plan->name.empty() ? "" : fmt::format(" \"{}\"", plan->name));
  }
}

}  // namespace

void Fabric::watch(int64_t now) {
  // By index: ending a group ends operations, but the list itself is swept elsewhere.
  for (size_t i = 0; i < executor_->active().size(); ++i) {
    Operation& operation = *executor_->active()[i];
    if (operation.linked) watch_one(operation, now);
  }
}

void Fabric::watch_one(Operation& operation, int64_t now) {
  const uint64_t moves = operation.moves.load(std::memory_order_relaxed);
  if (operation.watched_since_ns == 0 || moves != operation.watched_moves) {
    operation.watched_moves = moves;
    operation.watched_since_ns = now;
    operation.next_look_ns = operation.suspect ? now : now + kFirstLookNs;
    operation.look_every_ns = kFirstLookNs;
    operation.warned = false;
  }
  if (operation.suspect) operation.next_look_ns = std::min(operation.next_look_ns, now + kFirstLookNs);
  if (now < operation.next_look_ns) return;
  operation.look_every_ns = std::min(operation.look_every_ns * 2, kLookSeldomNs);
  operation.next_look_ns = now + operation.look_every_ns;
  const int64_t stalled = now - operation.watched_since_ns;
  Group& group = *operation.group;
  if (compare_boards(operation)) return;
  send_board(operation);
  if (judge_suspect(operation, now, stalled)) return;
  for (const Rank rank : executor_->awaited(operation)) {
    const int64_t departed = departed_at_[group.members[rank].fabric_rank];
    if (departed != 0 && now - departed > kDepartedGraceNs) return fail_for_departed(operation, rank);
  }
  const int64_t patience = operation.timeout_ns != 0 ? operation.timeout_ns : options_.timeout_ns;
  if (patience >= 0 && stalled > patience) {
    return fail_locked(group,
                       fail(Code::timeout, "{} made no progress for {:.1f} s{}", what(operation),
                            static_cast<double>(stalled) / 1e9, waiting_for(operation)),
                       group.rank, true);
  }
  if (stalled > kWarnNs && !operation.warned) {
    operation.warned = true;
    options_.log.warn("{} has made no progress for {:.0f} s{}", what(operation), static_cast<double>(stalled) / 1e9,
                      waiting_for(operation));
  }
}

void Fabric::fail_for_departed(Operation& operation, Rank rank) {
  Group& group = *operation.group;
  fail_locked(group,
              fail(Code::mismatch, "rank {} destroyed its communicator after {} calls; rank {} waits in {}", rank,
                   group.board->calls_of(rank), group.rank, what(operation)),
              rank, true);
}

// A failed link or a foreign message: the control plane and the boards usually say more within moments.
bool Fabric::judge_suspect(Operation& operation, int64_t now, int64_t stalled) {
  if (!operation.suspect) return false;
  Group& group = *operation.group;
  const Rank rank = *operation.suspect;
  control_pass();
  if (!operation.linked) return true;
  if (departed_at_[group.members[rank].fabric_rank] != 0) {
    fail_for_departed(operation, rank);
    return true;
  }
  operation.next_look_ns = now + kFirstLookNs;
  if (stalled < kSuspectNs) return false;
  const Status cause = operation.evidence.ok() ? fail(Code::mismatch, "rank {} made another call than rank {}'s {}",
                                                      rank, group.rank, what(operation))
                                               : operation.evidence;
  fail_locked(group, cause, rank, true);
  return true;
}

std::string Fabric::waiting_for(const Operation& operation) const {
  const std::vector<Rank> ranks = executor_->awaited(operation);
  if (ranks.empty()) return "";
  std::string text = "; rank " + std::to_string(operation.group->rank) + " waits for " + list(ranks);
  if (operation.kind == OperationKind::send || operation.kind == OperationKind::recv) return text;
  for (const Rank rank : ranks)
    text += fmt::format("; rank {} has made {} of {} calls", rank, operation.group->board->calls_of(rank),
                        operation.group->next_seq);
  return text;
}

// True when a difference was found and the group has been ended for it.
bool Fabric::compare_boards(Operation& operation) {
  if (operation.kind == OperationKind::send || operation.kind == OperationKind::recv) return false;
  Group& group = *operation.group;
  for (Rank member = 0; member < group.world(); ++member) {
    if (member == group.rank) continue;
    const auto difference = group.board->difference(member);
    if (!difference) continue;
    const bool first = group.rank < member;
    const Call& low = first ? difference->mine.call : difference->theirs.call;
    const Call& high = first ? difference->theirs.call : difference->mine.call;
    std::string note;
    if (describe(low) == describe(high))
      note = low.choice != high.choice ? " (with different algorithms or settings)"
                                       : " (after earlier calls that differed)";
    fail_locked(group,
                fail(Code::mismatch, "call {} differs: rank {} called {}, rank {} called {}{}", difference->mine.seq,
                     std::min(group.rank, member), describe(low), std::max(group.rank, member), describe(high), note),
                member, true);
    return true;
  }
  return false;
}

// The latest entries go to members that do not share memory; they compare and, finding a difference, abort.
void Fabric::send_board(Operation& operation) {
  if (operation.kind == OperationKind::send || operation.kind == OperationKind::recv) return;
  Group& group = *operation.group;
  for (Rank member = 0; member < group.world(); ++member) {
    if (member == group.rank || group.board->shares(member)) continue;
    const uint64_t first = group.next_seq > kBoardEntriesSent ? group.next_seq - kBoardEntriesSent : 0;
    for (uint64_t seq = first; seq < group.next_seq; ++seq) {
      const auto entry = group.board->own(seq);
      if (!entry) continue;
      control_->send(group.members[member].fabric_rank,
                     {.kind = ControlKind::board, .from = rank(), .text = CallBoard::encode(group.id, *entry)});
    }
  }
}

void Fabric::learn_board(const ControlMessage& message) {
  const auto decoded = CallBoard::decode(message.text);
  if (!decoded) return;
  const auto group = group_of(decoded->first);
  if (group == nullptr || !group->broken.ok()) return;
  for (Rank member = 0; member < group->world(); ++member) {
    if (group->members[member].fabric_rank != message.from) continue;
    group->board->learn(member, decoded->second);
    const auto difference = group->board->difference(member);
    if (!difference) return;
    Operation* waiting = nullptr;
    for (Operation* operation : executor_->active())
      if (operation->group == group.get() && operation->linked) waiting = operation;
    // Told to all, whether or not a call waits here: this rank may have finished its part.
    if (waiting != nullptr && compare_boards(*waiting)) return;
    fail_locked(*group,
                fail(Code::mismatch, "call {} differs: rank {} called {}, rank {} called {}", difference->mine.seq,
                     group->rank, describe(difference->mine.call), member, describe(difference->theirs.call)),
                member, true);
    return;
  }
}

bool Fabric::control_pass() {
  if (control_ == nullptr) return false;
  messages_.clear();
  if (!control_->progress(messages_)) return false;
  const std::vector<ControlMessage> messages = std::move(messages_);
  messages_ = {};
  for (const ControlMessage& message : messages) handle(message);
  if (executor_->ended() != ended_seen_) notify_ended();
  return true;
}

void Fabric::handle(const ControlMessage& message) {
  switch (message.kind) {
    case ControlKind::goodbye:
      departed_at_[message.from] = now_ns();
      break;
    case ControlKind::lost:
      lost(message);
      break;
    case ControlKind::board:
      learn_board(message);
      break;
    case ControlKind::abort: {
      if (message.text.size() < 8) break;
      const uint32_t id = static_cast<uint32_t>(strtoul(message.text.substr(0, 8).c_str(), nullptr, 16));
      if (const auto group = group_of(id))
        fail_locked(*group, Status(message.code, without_comm(message.text)), message.culprit, false);
      break;
    }
    case ControlKind::note:
      break;
  }
}

void Fabric::lost(const ControlMessage& message) {
  if (departed_at_[message.from] != 0) return;
  for (const auto& group : groups_) {
    for (Rank member = 0; member < group->world(); ++member) {
      if (group->members[member].fabric_rank != message.from) continue;
      fail_locked(*group, Status(Code::peer, message.text), member, true);
    }
  }
}

void Fabric::fail_locked(Group& group, const Status& cause, Rank culprit, bool tell) {
  if (!group.broken.ok()) return;
  executor_->fail_group(group, cause);
  publish_failure(group, culprit, tell);
  notify_ended();
}

// Groups that the executor has ended by itself (a message of another length).
void Fabric::announce_failures() {
  for (const auto& group : groups_)
    if (!group->broken.ok() && group->health.load(std::memory_order_relaxed) == 0)
      publish_failure(*group, group->rank, true);
}

void Fabric::publish_failure(Group& group, Rank culprit, bool tell) {
  group.health.store(static_cast<int32_t>(group.broken.code()), std::memory_order_release);
  if (!tell || control_ == nullptr) return;
  for (const Member& member : group.members)
    if (member.endpoint != nullptr)
      control_->send(member.fabric_rank, {.kind = ControlKind::abort,
                                          .from = rank(),
                                          .code = group.broken.code(),
                                          .culprit = culprit,
                                          .text = with_comm(group.id, group.broken.text())});
}

void Fabric::break_group(Group& group, const Status& cause, Rank culprit) {
  LeaseHold hold(*this);
  fail_locked(group, cause, culprit, true);
  control_pass();
}

}  // namespace rondo
