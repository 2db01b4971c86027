// The two ends of getting connected, as state machines that one thread drives with one poll(): a Dialer makes one
// connection and retries until its owner gives up; an Acceptor serves listening sockets and drops strangers.
// One round is: watch() all, PollSet::wait(), step() all.
#pragma once

#include <poll.h>

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "base/clock.h"
#include "base/status.h"
#include "transport/address.h"
#include "transport/handshake.h"

namespace rondo {

class PollSet {
 public:
  void clear();
  size_t add(int fd, short events);
  // wait() returns at `at_ns` at the latest; calls add up to the earliest.
  void wake_at(int64_t at_ns) { wake_ = std::min(wake_, at_ns); }
  Status wait(Deadline deadline);
  bool ready(size_t slot) const { return slot < fds_.size() && fds_[slot].revents != 0; }

 private:
  std::vector<pollfd> fds_;
  int64_t wake_ = INT64_MAX;
};

class Dialer {
 public:
  // options.deadline bounds nothing here: each attempt has kAttemptNs, and the owner says when to give up.
  Dialer(std::string address, const HandshakeOptions& options);

  void watch(PollSet& set);
  void step(const PollSet& set, int64_t now);
  bool done() const { return handshake_ && handshake_->state() == Handshake::State::done; }
  Handshake& handshake() { return *handshake_; }
  const std::string& address() const { return address_; }
  // Why there is no connection yet: the last failed attempt, or what is being waited for.
  Status why() const;
  // How many attempts in a row have ended in Code::auth.
  uint32_t auth_failures() const { return auth_failures_; }
  // Drops the connection, keeps `why` and tries again later.
  void retry(Status why, int64_t now);

  static constexpr int64_t kAttemptNs = 15'000'000'000;

 private:
  void open(int64_t now);
  void shake(int64_t now);

  std::string address_;
  HandshakeOptions options_;
  UniqueFd connecting_;
  std::unique_ptr<Handshake> handshake_;
  int64_t next_ns_ = 0;     // of the next attempt, while there is neither socket nor handshake
  int64_t attempt_ns_ = 0;  // until when the connect may take
  int64_t pause_ns_ = 0;
  size_t slot_ = SIZE_MAX;
  uint32_t auth_failures_ = 0;
  Status last_;
};

class Acceptor {
 public:
  // Whether a peer that has proved itself is welcome.
  using Judge = std::function<Status(const Hello&)>;

  struct Guest {
    Hello hello;
    JobKey session;
    UniqueFd socket;
    std::string address;
  };

  // The listening sockets stay the caller's.
  Acceptor(std::vector<int> listeners, const HandshakeOptions& options, Judge judge);

  void watch(PollSet& set);
  // Appends the connections that are through. Fails when this process cannot accept at all.
  Status step(const PollSet& set, int64_t now, std::vector<Guest>& guests);
  // Drops the connections whose handshake is under way.
  void drop_pending() { pending_.clear(); }

  uint32_t strangers() const { return strangers_; }          // all that were dropped, those below included
  uint32_t auth_failures() const { return auth_failures_; }  // of these, for want of the key
  // "; dropped 3 connections of strangers, 1 without the job key, the last from X: cause"; empty when there were none.
  std::string dropped_text() const;

  static constexpr size_t kPendingMax = 256;

 private:
  struct Pending {
    std::unique_ptr<Handshake> handshake;
    std::string address;
    size_t slot = SIZE_MAX;
  };

  Status accept_from(int listener, int64_t now);
  bool evict();
  void drop(const Pending& pending, const Status& why);
  bool advance(Pending& pending, std::vector<Guest>& guests);

  std::vector<int> listeners_;
  std::vector<size_t> slots_;
  HandshakeOptions options_;
  Judge judge_;
  std::vector<Pending> pending_;  // oldest first
  uint32_t strangers_ = 0;
  uint32_t auth_failures_ = 0;
  std::string last_;
};

}  // namespace rondo
