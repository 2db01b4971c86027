#include "transport/rendezvous_host.h"

#include <sys/socket.h>

#include <cerrno>

namespace rondo {
namespace {

constexpr int64_t kGraceNs = 200'000'000;       // so that several culprits are named together
constexpr int64_t kLingerNs = 500'000'000;      // for ranks that come just after a failure
constexpr int64_t kTellNs = 10'000'000'000;     // for the answer to leave this host
constexpr int64_t kMarginMostNs = 200'000'000;  // by which the decision comes before a rank's deadline
constexpr int64_t kMarginLeastNs = 10'000'000;
constexpr size_t kCulpritsMax = 16;
constexpr size_t kReadBytes = 16 << 10;

int64_t before_deadline(int64_t now, uint64_t left_ns) {
  const auto left = static_cast<int64_t>(std::min<uint64_t>(left_ns, uint64_t{1} << 60));
  return now + left - std::clamp(left / 10, kMarginLeastNs, kMarginMostNs);
}

HandshakeOptions handshake_of(const JoinOptions& options, const Pass& pass) {
  return {.identity = {.job = pass.tag,
                       .epoch = 0,
                       .rank = options.rank,
                       .world = options.world,
                       .keyed = pass.keyed,
                       .key = pass.key},
          .purpose = "join"};
}

std::string joined(const std::vector<std::string>& parts) {
  std::string text;
  for (const std::string& part : parts) text += (text.empty() ? "" : "; ") + part;
  return text;
}

}  // namespace

RendezvousHost::RendezvousHost(const Setup& setup)
    : options_(setup.options),
      place_(setup.place.text),
      origin_(setup.origin),
      job_(setup.job),
      start_ns_(now_ns()),
      until_ns_(setup.options.deadline.at_ns),
      acceptor_(setup.meeting.listeners(), handshake_of(setup.options, setup.meeting.pass()),
                [](const Hello&) { return Status(); }),
      by_rank_(setup.options.world, nullptr) {}

std::string RendezvousHost::described(const Visitor& visitor) {
  const bool named = visitor.entry && !visitor.entry->origin.empty();
  return named ? fmt::format("{}, from {}", visitor.entry->origin, visitor.address) : "from " + visitor.address;
}

int64_t RendezvousHost::decision_ns() const {
  return blamed_ns_ == INT64_MAX ? until_ns_ : std::min(until_ns_, blamed_ns_ + kGraceNs);
}

Result<Answer> RendezvousHost::run() {
  while (!complete() && now_ns() < decision_ns()) RONDO_TRY(round({decision_ns()}));
  const Answer answer = verdict();
  payload_ = encode_answer(answer);
  if (payload_.size() > kAnswerMax)
    return fail(Code::invalid, "rendezvous {}: the blobs of {} ranks have {} bytes, {} is the most", place_,
                options_.world, payload_.size(), kAnswerMax);
  decided_ = true;
  for (auto& visitor : visitors_)
    if (visitor->entry) this->answer(*visitor);
  RONDO_TRY(tell_all());
  return answer;
}

// Sends the answers; after a failure also to those who come a little later.
Status RendezvousHost::tell_all() {
  const int64_t start = now_ns();
  const int64_t linger = culprits_.empty() ? start : start + kLingerNs;
  while (true) {
    bool sending = false;
    for (const auto& visitor : visitors_) sending |= !visitor->out.empty();
    const int64_t until = sending ? start + kTellNs : linger;
    if (now_ns() >= until) return {};
    RONDO_TRY(round({until}));
  }
}

Status RendezvousHost::round(Deadline until) {
  set_.clear();
  const bool open = !decided_ || !culprits_.empty();
  if (open) acceptor_.watch(set_);
  for (auto& visitor : visitors_) {
    visitor->slot = set_.add(visitor->socket.get(), static_cast<short>(POLLIN | (visitor->out.empty() ? 0 : POLLOUT)));
    if (!visitor->entry) set_.wake_at(visitor->entry_deadline.at_ns);
  }
  if (Status status = set_.wait(until); !status.ok())
    return fail(status.code(), "rendezvous {}: {}", place_, status.text());
  const int64_t now = now_ns();
  std::vector<Acceptor::Guest> guests;
  if (open)
    if (Status status = acceptor_.step(set_, now, guests); !status.ok())
      return fail(status.code(), "rendezvous {}: {}", place_, status.text());
  for (auto& visitor : visitors_) step(*visitor, now, set_.ready(visitor->slot));
  greet(guests, now);
  std::erase_if(visitors_, [](const auto& visitor) { return visitor->over; });
  return {};
}

void RendezvousHost::greet(std::vector<Acceptor::Guest>& guests, int64_t now) {
  for (Acceptor::Guest& guest : guests) {
    auto visitor = std::make_unique<Visitor>();
    visitor->rank = guest.hello.rank;
    visitor->world = guest.hello.world;
    visitor->session = guest.session;
    visitor->socket = std::move(guest.socket);
    visitor->address = std::move(guest.address);
    visitor->entry_deadline = {now + kHandshakeNs};
    step(*visitor, now, true);
    if (!visitor->over) visitors_.push_back(std::move(visitor));
  }
}

void RendezvousHost::step(Visitor& visitor, int64_t now, bool ready) {
  if (visitor.over) return;
  if (ready) read(visitor, now);
  if (!visitor.over && !visitor.entry && now >= visitor.entry_deadline.at_ns) {
    ++strays_;
    leave(visitor);
  }
  if (!visitor.over) flush(visitor);
}

void RendezvousHost::read(Visitor& visitor, int64_t now) {
  // One entry fits; what goes beyond it is refused in take_entry.
  for (size_t round = 0; round < kEntryMax / kReadBytes + 2; ++round) {
    char buffer[kReadBytes];
    const ssize_t got = recv(visitor.socket.get(), buffer, sizeof buffer, 0);
    if (got < 0 && errno == EINTR) continue;
    if (got < 0 && errno == EAGAIN) return;
    if (got <= 0) return leave(visitor);
    visitor.in.append(buffer, static_cast<size_t>(got));
    if (visitor.entry) return leave(visitor);  // nothing is to be said after the entry
    take_entry(visitor, now);
    if (visitor.over) return;
  }
}

void RendezvousHost::take_entry(Visitor& visitor, int64_t now) {
  auto payload = open_signed(visitor.session, "entry", bytes_of(visitor.in), kEntryMax);
  if (payload.ok() && !payload->has_value()) return;
  auto entry = payload.ok() ? parse_entry(**payload) : Result<Entry>(payload.status());
  if (!entry.ok()) {
    ++strays_;
    return leave(visitor);
  }
  visitor.entry = std::make_unique<Entry>(std::move(*entry));
  enter(visitor, now);
}

void RendezvousHost::enter(Visitor& visitor, int64_t now) {
  if (decided_) return answer(visitor);
  until_ns_ = std::min(until_ns_, before_deadline(now, visitor.entry->left_ns));
  if (visitor.world != options_.world) {
    return blame(fmt::format("the world of rank {} ({}) is {}, that of rank 0 ({}) is {}", visitor.rank,
                             described(visitor), visitor.world, origin_, options_.world),
                 now);
  }
  if (visitor.rank >= options_.world)
    return blame(
        fmt::format("rank {} ({}) is out of range: the world is {}", visitor.rank, described(visitor), options_.world),
        now);
  if (visitor.rank == options_.rank)
    return blame(fmt::format("rank {} came twice: {}; and {}", visitor.rank, origin_, described(visitor)), now);
  Visitor*& place = by_rank_[visitor.rank];
  if (place != nullptr && place->entry->instance != visitor.entry->instance)
    return blame(fmt::format("rank {} came twice: {}; and {}", visitor.rank, described(*place), described(visitor)),
                 now);
  if (place != nullptr) leave(*place);  // it has dialed again
  place = &visitor;
  ++present_;
}

void RendezvousHost::leave(Visitor& visitor) {
  visitor.over = true;
  if (!visitor.entry || visitor.rank >= by_rank_.size() || by_rank_[visitor.rank] != &visitor) return;
  by_rank_[visitor.rank] = nullptr;
  --present_;
  if (!decided_ && left_.size() < kCulpritsMax)
    left_.push_back(fmt::format("rank {} ({}) came and left", visitor.rank, described(visitor)));
}

void RendezvousHost::blame(std::string what, int64_t now) {
  if (blamed_ns_ == INT64_MAX) blamed_ns_ = now;
  if (culprits_.size() < kCulpritsMax) culprits_.push_back(std::move(what));
}

void RendezvousHost::answer(Visitor& visitor) { visitor.out = sign(visitor.session, "answer", payload_); }

void RendezvousHost::flush(Visitor& visitor) {
  size_t begin = 0;
  while (begin < visitor.out.size()) {
    const ssize_t sent =
        send(visitor.socket.get(), visitor.out.data() + begin, visitor.out.size() - begin, MSG_NOSIGNAL);
    if (sent < 0 && errno == EINTR) continue;
    if (sent < 0 && errno == EAGAIN) break;
    if (sent < 0) return leave(visitor);
    begin += static_cast<size_t>(sent);
  }
  if (begin == 0) return;
  visitor.out.erase(0, begin);
  if (visitor.out.empty()) shutdown(visitor.socket.get(), SHUT_WR);
}

std::string RendezvousHost::missing_text() const {
  std::string ranks;
  uint32_t count = 0;
  for (Rank rank = 0; rank < options_.world; ++rank) {
    if (rank == options_.rank || by_rank_[rank] != nullptr) continue;
    ranks += fmt::format("{}{}", count == 0 ? "" : ", ", rank);
    ++count;
  }
  std::string text = fmt::format("{} {} of {} did not come within {:.1f} s", count == 1 ? "rank" : "ranks", ranks,
                                 options_.world, static_cast<double>(now_ns() - start_ns_) * 1e-9);
  if (!left_.empty()) text += "; " + joined(left_);
  if (acceptor_.auth_failures() > 0)
    text += fmt::format("; {} connection{} failed authentication", acceptor_.auth_failures(),
                        acceptor_.auth_failures() == 1 ? "" : "s");
  if (strays_ > 0) text += fmt::format("; {} connections brought no proper entry", strays_);
  return text + acceptor_.dropped_text();
}

Answer RendezvousHost::verdict() const {
  Answer answer;
  if (complete()) {
    answer.job = job_;
    for (Rank rank = 0; rank < options_.world; ++rank)
      answer.blobs.push_back(rank == options_.rank ? options_.blob : by_rank_[rank]->entry->blob);
    return answer;
  }
  answer.code = culprits_.empty() ? Code::timeout : Code::invalid;
  answer.text = fmt::format("rendezvous {}: {}", place_, culprits_.empty() ? missing_text() : joined(culprits_));
  return answer;
}

}  // namespace rondo
