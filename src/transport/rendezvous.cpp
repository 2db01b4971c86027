#include "transport/rendezvous.h"

#include <sodium.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cerrno>
#include <optional>

#include "transport/dial.h"
#include "transport/meeting.h"
#include "transport/rendezvous_host.h"
#include "transport/rendezvous_wire.h"

namespace rondo {
namespace {

constexpr int64_t kReportNs = 5'000'000'000;  // for a rank out of range to tell the others
constexpr int64_t kTakenNs = 3'000'000'000;   // for a predecessor to leave rank 0's address
constexpr int64_t kAskNs = 500'000'000;       // for whoever has the address to say that it is rank 0
constexpr uint32_t kAuthFailuresMax = 8;      // half a second of retries
constexpr size_t kAddressesNamed = 4;

std::string origin_text() {
  char host[128] = "?";
  gethostname(host, sizeof host - 1);
  return fmt::format("pid {} on {}", getpid(), host);
}

uint64_t random_word() {
  RONDO_CHECK(sodium_init() >= 0);
  uint64_t word = 0;
  while (word == 0) randombytes_buf(&word, sizeof word);
  return word;
}

// A visit to rank 0: finds it, proves itself, leaves an entry and waits for the answer.
class Visit {
 public:
  Visit(const Place& place, const JoinOptions& options)
      : options_(options), place_(place), guide_(place, options), instance_(random_word()), start_ns_(now_ns()) {}

  // What rank 0 said (a failure, too), or why it said nothing.
  Result<Answer> run() {
    PollSet set;
    while (true) {
      set.clear();
      if (!socket_ && guide_.refresh(now_ns())) make_dialers();
      watch(set);
      if (Status status = set.wait(options_.deadline); !status.ok()) return failure(status);
      const int64_t now = now_ns();
      if (!socket_) dial(set, now);
      if (socket_) exchange(now);
      if (answer_) return std::move(*answer_);
      if (Status refused = refusal(); !refused.ok()) return refused;
      if (options_.deadline.passed()) return failure(fail(Code::timeout, "{}", late_text()));
    }
  }

  const Pass& pass() const { return pass_; }

 private:
  Status failure(const Status& why) const { return fail(why.code(), "rendezvous {}: {}", place_.text, why.text()); }

  void make_dialers() {
    pass_ = guide_.pass();
    dialers_.clear();
    HandshakeOptions dial{.identity = {.job = pass_.tag,
                                       .epoch = 0,
                                       .rank = options_.rank,
                                       .world = options_.world,
                                       .keyed = pass_.keyed,
                                       .key = pass_.key},
                          .purpose = "join",
                          .peer = Rank{0}};
    for (const std::string& address : guide_.addresses()) dialers_.push_back(std::make_unique<Dialer>(address, dial));
  }

  void watch(PollSet& set) {
    if (socket_) {
      set.add(socket_.get(), static_cast<short>(POLLIN | (out_.empty() ? 0 : POLLOUT)));
      return;
    }
    for (auto& dialer : dialers_) dialer->watch(set);
    set.wake_at(guide_.next_ns());
  }

  void dial(const PollSet& set, int64_t now) {
    for (size_t i = 0; i < dialers_.size() && !socket_; ++i) {
      dialers_[i]->step(set, now);
      if (!dialers_[i]->done()) continue;
      used_ = i;
      session_ = dialers_[i]->handshake().session_key();
      socket_ = dialers_[i]->handshake().take_fd();
    }
    if (!socket_) return;
    for (size_t i = 0; i < dialers_.size(); ++i)
      if (i != used_) dialers_[i]->retry(fail(Code::timeout, "another address answered first"), now);
    Entry entry{.instance = instance_, .left_ns = 0, .origin = origin_text(), .blob = options_.blob};
    entry.left_ns = static_cast<uint64_t>(std::max<int64_t>(options_.deadline.at_ns - now, 0));
    out_ = sign(session_, "entry", encode_entry(entry));
    in_.clear();
  }

  void exchange(int64_t now) {
    while (!out_.empty()) {
      const ssize_t sent = send(socket_.get(), out_.data(), out_.size(), MSG_NOSIGNAL);
      if (sent < 0 && errno == EINTR) continue;
      if (sent < 0 && errno == EAGAIN) break;
      if (sent < 0) return broken(Status(Code::peer, errno_text(errno)), now);
      out_.erase(0, static_cast<size_t>(sent));
    }
    char buffer[64 << 10];
    const ssize_t got = recv(socket_.get(), buffer, sizeof buffer, 0);
    if (got < 0 && (errno == EINTR || errno == EAGAIN)) return;
    if (got < 0) return broken(Status(Code::peer, errno_text(errno)), now);
    if (got == 0) return broken(fail(Code::peer, "it closed the connection before it answered"), now);
    in_.append(buffer, static_cast<size_t>(got));
    auto payload = open_signed(session_, "answer", bytes_of(in_), kAnswerMax);
    if (!payload.ok()) return broken(payload.status(), now);
    if (!payload->has_value()) return;
    auto answer = parse_answer(**payload);
    if (answer.ok() && answer->code == Code::ok && answer->blobs.size() != options_.world)
      answer = fail(Code::invalid, "the roster has {} ranks, not {}", answer->blobs.size(), options_.world);
    if (!answer.ok()) return broken(answer.status(), now);
    answer_ = std::move(*answer);
  }

  // Rank 0 may have been started anew: it is dialed again.
  void broken(Status why, int64_t now) {
    socket_.reset();
    dialers_[used_]->retry(std::move(why), now);
  }

  // Ok unless waiting longer is of no use. The secret in a meeting file changes with the file, so it may still come
  // right.
  Status refusal() const {
    if (place_.kind == Place::Kind::file) return {};
    for (const auto& dialer : dialers_)
      if (dialer->auth_failures() >= kAuthFailuresMax)
        return failure(fail(Code::auth, "rank 0 at {} and rank {}: {}", bare_address(dialer->address()), options_.rank,
                            dialer->why().text()));
    return {};
  }

  std::string late_text() const {
    const double seconds = static_cast<double>(now_ns() - start_ns_) * 1e-9;
    if (socket_)
      return fmt::format("rank 0 at {} did not answer rank {} within {:.1f} s",
                         bare_address(dialers_[used_]->address()), options_.rank, seconds);
    std::string text = fmt::format("rank {} did not reach rank 0 within {:.1f} s", options_.rank, seconds);
    if (dialers_.empty()) return text + ": " + guide_.why().text();
    for (size_t i = 0; i < dialers_.size() && i < kAddressesNamed; ++i)
      text += fmt::format("{} {}: {}", i == 0 ? " at" : "; at", bare_address(dialers_[i]->address()),
                          dialers_[i]->why().text());
    if (dialers_.size() > kAddressesNamed)
      text += fmt::format("; nor at {} further addresses", dialers_.size() - kAddressesNamed);
    return text;
  }

  JoinOptions options_;
  Place place_;
  Guide guide_;
  uint64_t instance_;
  int64_t start_ns_;
  Pass pass_;
  std::vector<std::unique_ptr<Dialer>> dialers_;
  size_t used_ = 0;  // the dialer whose connection socket_ is
  UniqueFd socket_;
  JobKey session_{};
  std::string in_, out_;
  std::optional<Answer> answer_;
};

Result<Roster> roster_of(Result<Answer> answer, const JoinOptions& options, const Pass& pass) {
  RONDO_TRY(answer.status());
  if (answer->code != Code::ok) return Status(answer->code, answer->text);
  Roster roster;
  roster.identity = {.job = answer->job,
                     .epoch = 0,
                     .rank = options.rank,
                     .world = options.world,
                     .keyed = pass.keyed,
                     .key = pass.key};
  roster.blobs = std::move(answer->blobs);
  return roster;
}

JoinOptions within(JoinOptions options, int64_t ns) {
  options.deadline.at_ns = std::min(options.deadline.at_ns, now_ns() + ns);
  return options;
}

// A rank out of range: says so at the rendezvous, so that nobody waits for it, and fails in any case.
Status report_range(const Place& place, const JoinOptions& options) {
  const Status own = fail(Code::invalid, "rendezvous {}: rank {} is out of range: the world is {}", place.text,
                          options.rank, options.world);
  auto answer = Visit(place, within(options, kReportNs)).run();
  return answer.ok() && answer->code != Code::ok ? Status(answer->code, answer->text) : own;
}

// Where rank 0's address is taken: by another rank 0, whose verdict counts, by a predecessor that is about to leave, or
// by a program of another kind.
Result<std::unique_ptr<Meeting>> open_meeting(const Place& place, const JoinOptions& options) {
  const Deadline patience = within(options, kTakenNs).deadline;
  while (true) {
    int error = 0;
    auto meeting = Meeting::open(place, options, error);
    if (meeting.ok() || error != EADDRINUSE || patience.passed()) return meeting;
    auto answer = Visit(place, within(options, kAskNs)).run();
    if (answer.ok() && answer->code != Code::ok) return Status(answer->code, answer->text);
  }
}

Result<Roster> host(const Place& place, const JoinOptions& options, const Logger& log) {
  auto meeting = open_meeting(place, options);
  RONDO_TRY(meeting.status());
  const Pass& pass = (*meeting)->pass();
  if (!pass.keyed && place.kind != Place::Kind::local)
    log.warn("rendezvous {}: no job key: whoever reaches this address can join", place.text);
  RendezvousHost host({options, place, **meeting, origin_text(), random_word()});
  return roster_of(host.run(), options, pass);
}

Roster alone(const JoinOptions& options) {
  Roster roster;
  roster.identity = {
      .job = random_word(), .epoch = 0, .rank = 0, .world = 1, .keyed = options.keyed, .key = options.key};
  roster.blobs = {options.blob};
  return roster;
}

}  // namespace

Result<Roster> join(const JoinOptions& options, const Logger& log) {
  UniqueFd unused(options.rank == 0 && options.world == 1 ? options.listen_fd : -1);
  if (options.world == 0) return fail(Code::invalid, "rendezvous: a world of 0 ranks");
  if (options.blob.size() > kBlobMax)
    return fail(Code::invalid, "rendezvous: a blob of {} bytes, {} is the most", options.blob.size(), kBlobMax);
  if (options.world == 1 && options.rank == 0) return alone(options);
  auto place = parse_place(options.rendezvous);
  RONDO_TRY(place.status());
  if (options.rank >= options.world) return report_range(*place, options);
  if (options.rank == 0) return host(*place, options, log);
  Visit visit(*place, options);
  auto answer = visit.run();
  return roster_of(std::move(answer), options, visit.pass());
}

}  // namespace rondo
