#include "transports/chaos/chaos.h"

#include <algorithm>
#include <cstring>
#include <list>
#include <map>
#include <utility>

#include "base/check.h"

namespace rondo {
namespace {

constexpr int64_t kFlushMs = 2000;  // the destructor passes on what is held, for at most so long

// splitmix64: the whole state is one number, so a seed is a run.
class Random {
 public:
  explicit Random(uint64_t seed) : state_(seed) {}
  uint64_t next() {
    uint64_t z = (state_ += 0x9e3779b97f4a7c15u);
    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
    z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
    return z ^ (z >> 31);
  }
  uint32_t below(uint32_t bound) { return bound == 0 ? 0 : static_cast<uint32_t>(next() % bound); }
  bool percent(uint32_t chance) { return below(100) < chance; }

 private:
  uint64_t state_;
};

// What all endpoints of one transport share.
struct Mood {
  explicit Mood(const ChaosOptions& given) : options(given), random(given.seed) {}

  // Whether to refuse now; never more than refusals_most times in a row per `streak`. A refusal is owed a retry.
  bool refuses(uint32_t chance, uint32_t& streak) {
    if (streak >= options.refusals_most || !random.percent(chance)) {
      streak = 0;
      return false;
    }
    ++streak;
    owes = true;
    return true;
  }
  uint64_t later() { return now + 1 + random.below(options.delay_most); }
  void complete(Token token) { completions.push_back({random.percent(options.late) ? later() : now, token}); }

  struct Late {
    uint64_t due;
    Token token;
  };

  const ChaosOptions options;
  Random random;
  uint64_t now = 0;   // progress() calls so far
  bool owes = false;  // something was refused that would have worked: nobody may sleep before having tried again
  std::vector<Late> completions;
};

// A send or commit that was accepted and not yet passed on.
struct Held {
  Frame frame;
  const std::byte* data = nullptr;  // the caller's memory (pending), or the copy
  std::vector<std::byte> copy;
  Token token = 0;
  bool pending = false;
  bool committed = false;
  Slot slot;
  uint64_t due = 0;
};

class ChaosEndpoint final : public Endpoint {
 public:
  ChaosEndpoint(Endpoint& inner, Rank peer, const Caps& caps, Mood& mood)
      : inner_(inner), peer_(peer), caps_(caps), mood_(mood) {}

  Sent send(const Frame& frame, const std::byte* data, Token token) override;
  Sent commit(const Frame& frame, const Slot& slot) override;
  bool poll(const StreamKey& key, Message* message) override;
  void release(const Message& message) override { inner_.release(message); }
  bool expose(const StreamKey& key, std::byte* memory, size_t bytes) override;
  bool withdraw(const StreamKey& key) override;
  void detach(Token token) override;
  bool peek_user(uint32_t comm, Frame* frame) override;
  bool wanted_back() const override { return inner_.wanted_back(); }
  const Status& status() const override { return lost_.ok() ? inner_.status() : lost_; }

  // Passes on what is due (everything, when `flush`), in random order between streams.
  bool pass_on(bool flush);
  bool holds() const { return !held_.empty(); }

 private:
  bool is_held(const StreamKey& key) const {
    return std::any_of(held_.begin(), held_.end(), [&](const Held& held) { return key_of(held.frame) == key; });
  }
  bool first_of_stream(std::list<Held>::const_iterator at) const {
    return std::none_of(held_.begin(), at, [&](const Held& h) { return key_of(h.frame) == key_of(at->frame); });
  }
  Sent hold(const Frame& frame, const std::byte* data, Token token);
  bool give(Held& held);
  void count();
  void lose();

  Endpoint& inner_;
  const Rank peer_;
  const Caps& caps_;
  Mood& mood_;
  std::list<Held> held_;  // in the order in which they were accepted
  uint64_t messages_ = 0;
  uint32_t again_streak_ = 0, hide_streak_ = 0, peek_streak_ = 0, expose_streak_ = 0, withdraw_streak_ = 0;
  bool peeked_ = false;  // a peek has promised that peeked_key_ can be polled
  StreamKey peeked_key_;
  Status lost_;
};

void ChaosEndpoint::count() {
  if (peer_ == mood_.options.lose_peer && ++messages_ > mood_.options.lose_after) lose();
}

void ChaosEndpoint::lose() {
  if (!lost_.ok()) return;
  lost_ = fail(Code::peer, "chaos: rank {} was lost after {} messages", peer_, mood_.options.lose_after);
  for (auto at = held_.begin(); at != held_.end();) {
    if (at->pending) mood_.complete(at->token);
    // A slot must reach all its readers to come back to its owner; the peer is not really dead.
    if (at->committed) static_cast<void>(inner_.commit(at->frame, at->slot));
    at = held_.erase(at);
  }
}

Sent ChaosEndpoint::hold(const Frame& frame, const std::byte* data, Token token) {
  Held held{.frame = frame, .data = data, .token = token, .due = mood_.later()};
  held.pending = frame.bytes > caps_.inject_bytes;
  if (!held.pending) {
    held.copy.assign(data, data + frame.bytes);
    held.data = held.copy.data();
  }
  const bool pending = held.pending;
  held_.push_back(std::move(held));
  return pending ? Sent::pending : Sent::done;
}

Sent ChaosEndpoint::send(const Frame& frame, const std::byte* data, Token token) {
  if (!status().ok()) return Sent::failed;
  count();
  if (!lost_.ok()) return Sent::failed;
  if (mood_.refuses(mood_.options.again, again_streak_)) return Sent::again;
  if (is_held(key_of(frame)) || mood_.random.percent(mood_.options.hold)) return hold(frame, data, token);
  return inner_.send(frame, data, token);
}

Sent ChaosEndpoint::commit(const Frame& frame, const Slot& slot) {
  if (lost_.ok() && inner_.status().ok()) count();
  if (!lost_.ok()) {
    static_cast<void>(inner_.commit(frame, slot));
    return Sent::failed;
  }
  if (!is_held(key_of(frame)) && !mood_.random.percent(mood_.options.hold)) return inner_.commit(frame, slot);
  held_.push_back(Held{.frame = frame, .committed = true, .slot = slot, .due = mood_.later()});
  return Sent::done;
}

// Whether it has left; a failed endpoint takes everything.
bool ChaosEndpoint::give(Held& held) {
  const Sent sent =
      held.committed ? inner_.commit(held.frame, held.slot) : inner_.send(held.frame, held.data, held.token);
  switch (sent) {
    case Sent::again:
      return false;
    case Sent::pending:
      RONDO_CHECK(held.pending);                          // a payload of at most inject_bytes never stays pending
      if (!held.copy.empty()) inner_.detach(held.token);  // the copy goes with `held`
      return true;
    case Sent::done:
    case Sent::failed:
      if (held.pending) mood_.complete(held.token);
      return true;
  }
  return true;
}

bool ChaosEndpoint::pass_on(bool flush) {
  bool moved = false;
  std::vector<std::list<Held>::iterator> ready;
  for (size_t round = held_.size(); round > 0; --round) {
    ready.clear();
    for (auto at = held_.begin(); at != held_.end(); ++at)
      if ((flush || at->due <= mood_.now) && first_of_stream(at)) ready.push_back(at);
    if (ready.empty()) return moved;
    const auto chosen = ready[mood_.random.below(static_cast<uint32_t>(ready.size()))];
    if (!give(*chosen)) return moved;
    held_.erase(chosen);
    moved = true;
  }
  return moved;
}

bool ChaosEndpoint::poll(const StreamKey& key, Message* message) {
  if (!lost_.ok()) return false;
  const bool promised = peeked_ && peeked_key_ == key;
  if (!promised && mood_.refuses(mood_.options.hide, hide_streak_)) return false;
  if (!inner_.poll(key, message)) return false;
  if (promised) peeked_ = false;
  if (peer_ == mood_.options.lose_peer && messages_ >= mood_.options.lose_after) {
    inner_.release(*message);
    lose();
    return false;
  }
  count();
  return true;
}

bool ChaosEndpoint::expose(const StreamKey& key, std::byte* memory, size_t bytes) {
  if (!lost_.ok() || mood_.refuses(mood_.options.refuse, expose_streak_)) return false;
  return inner_.expose(key, memory, bytes);
}

bool ChaosEndpoint::withdraw(const StreamKey& key) {
  if (mood_.refuses(mood_.options.refuse, withdraw_streak_)) return false;
  return inner_.withdraw(key);
}

void ChaosEndpoint::detach(Token token) {
  for (Held& held : held_) {
    if (!held.pending || held.token != token) continue;
    held.copy.assign(held.data, held.data + held.frame.bytes);
    held.data = held.copy.data();
    return;
  }
  inner_.detach(token);
}

bool ChaosEndpoint::peek_user(uint32_t comm, Frame* frame) {
  if (!lost_.ok() || mood_.refuses(mood_.options.hide, peek_streak_)) return false;
  if (!inner_.peek_user(comm, frame)) return false;
  peeked_ = true;
  peeked_key_ = key_of(*frame);
  return true;
}

class ChaosTransport final : public Transport {
 public:
  ChaosTransport(std::unique_ptr<Transport> owned, Transport& inner, const ChaosOptions& options)
      : owned_(std::move(owned)), inner_(inner), mood_(options) {}
  ~ChaosTransport() override;

  std::string_view name() const override { return inner_.name(); }
  const Caps& caps() const override { return inner_.caps(); }
  std::string address() const override { return inner_.address(); }
  Status reaches(std::string_view address) const override { return inner_.reaches(address); }
  Status connect(std::span<const Peer> peers, Deadline deadline) override;
  Endpoint* endpoint(Rank rank) override {
    const auto at = endpoints_.find(rank);
    return at == endpoints_.end() ? nullptr : at->second.get();
  }
  bool progress(std::vector<Completion>& completions) override;
  int wait_fd() const override { return inner_.wait_fd(); }
  bool arm() override;
  void disarm() override { inner_.disarm(); }
  Slot reserve(size_t bytes, uint32_t readers) override;
  void cancel(const Slot& slot) override { inner_.cancel(slot); }
  Result<std::unique_ptr<SharedArea>> share(uint64_t id, std::span<const Rank> members, size_t bytes,
                                            Writers writers) override {
    return inner_.share(id, members, bytes, writers);
  }
  Result<void*> alloc(size_t bytes) override { return inner_.alloc(bytes); }
  Status free(void* memory) override { return inner_.free(memory); }
  bool locate(const void* memory, size_t bytes, uint64_t* place) override {
    return inner_.locate(memory, bytes, place);
  }
  std::byte* view(Rank rank, uint64_t place, size_t bytes) override { return inner_.view(rank, place, bytes); }
  Status part(void* memory, size_t bytes) override { return inner_.part(memory, bytes); }

 private:
  bool pass_on(bool flush);
  bool holds() const {
    return std::any_of(endpoints_.begin(), endpoints_.end(), [](const auto& entry) { return entry.second->holds(); });
  }

  std::unique_ptr<Transport> owned_;
  Transport& inner_;
  Mood mood_;
  std::map<Rank, std::unique_ptr<ChaosEndpoint>> endpoints_;
  std::vector<Completion> below_;
  uint32_t idle_streak_ = 0, reserve_streak_ = 0;
};

ChaosTransport::~ChaosTransport() {
  const Deadline deadline = Deadline::after_ms(kFlushMs);
  while (holds() && !deadline.passed()) {
    pass_on(true);
    below_.clear();
    inner_.progress(below_);
  }
}

Status ChaosTransport::connect(std::span<const Peer> peers, Deadline deadline) {
  RONDO_TRY(inner_.connect(peers, deadline));
  for (const Peer& peer : peers) {
    Endpoint* inner = inner_.endpoint(peer.rank);
    RONDO_CHECK(inner != nullptr);
    if (!endpoints_.contains(peer.rank))
      endpoints_[peer.rank] = std::make_unique<ChaosEndpoint>(*inner, peer.rank, inner_.caps(), mood_);
  }
  return {};
}

bool ChaosTransport::pass_on(bool flush) {
  if (endpoints_.empty()) return false;
  bool moved = false;
  auto at = endpoints_.begin();
  std::advance(at, mood_.random.below(static_cast<uint32_t>(endpoints_.size())));
  for (size_t i = 0; i < endpoints_.size(); ++i) {
    moved |= at->second->pass_on(flush);
    if (++at == endpoints_.end()) at = endpoints_.begin();
  }
  return moved;
}

bool ChaosTransport::progress(std::vector<Completion>& completions) {
  ++mood_.now;
  bool moved = pass_on(false);
  if (!mood_.refuses(mood_.options.idle, idle_streak_)) {
    below_.clear();
    moved |= inner_.progress(below_);
    for (const Completion& completion : below_) mood_.complete(completion.token);
  }
  std::vector<Mood::Late>& late = mood_.completions;
  for (size_t i = 0; i < late.size();) {
    if (late[i].due > mood_.now) {
      ++i;
      continue;
    }
    completions.push_back({late[i].token});
    late[i] = late.back();  // completions have no order
    late.pop_back();
    moved = true;
  }
  return moved;
}

bool ChaosTransport::arm() {
  if (std::exchange(mood_.owes, false) || !mood_.completions.empty() || holds()) return false;
  return inner_.arm();
}

Slot ChaosTransport::reserve(size_t bytes, uint32_t readers) {
  if (mood_.refuses(mood_.options.refuse, reserve_streak_)) return {};
  return inner_.reserve(bytes, readers);
}

}  // namespace

std::unique_ptr<Transport> make_chaos(std::unique_ptr<Transport> inner, const ChaosOptions& options) {
  Transport& borrowed = *inner;
  return std::make_unique<ChaosTransport>(std::move(inner), borrowed, options);
}

std::unique_ptr<Transport> make_chaos(Transport& inner, const ChaosOptions& options) {
  return std::make_unique<ChaosTransport>(nullptr, inner, options);
}

}  // namespace rondo
