// Rank 0's part of the rendezvous: gathers an entry from every rank, decides, and tells all the same. One thread.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "base/status.h"
#include "transport/dial.h"
#include "transport/meeting.h"
#include "transport/rendezvous.h"
#include "transport/rendezvous_wire.h"

namespace rondo {

class RendezvousHost {
 public:
  // `instance` is what rank 0's own entry would carry; `job` becomes the job number.
  struct Setup {
    const JoinOptions& options;
    const Place& place;
    Meeting& meeting;
    std::string origin;
    uint64_t job = 0;
  };
  explicit RendezvousHost(const Setup& setup);

  // The roster, or the failure that all ranks have been told.
  Result<Answer> run();

 private:
  struct Visitor {
    Rank rank = 0;
    uint32_t world = 0;
    JobKey session{};
    UniqueFd socket;
    std::string address, in, out;
    std::unique_ptr<Entry> entry;  // null until it has come
    Deadline entry_deadline;
    size_t slot = SIZE_MAX;
    bool over = false;  // to be forgotten
  };

  Status round(Deadline until);
  void greet(std::vector<Acceptor::Guest>& guests, int64_t now);
  void step(Visitor& visitor, int64_t now, bool ready);
  void read(Visitor& visitor, int64_t now);
  void take_entry(Visitor& visitor, int64_t now);
  void enter(Visitor& visitor, int64_t now);
  void leave(Visitor& visitor);
  void flush(Visitor& visitor);
  void blame(std::string what, int64_t now);
  void answer(Visitor& visitor);
  Status tell_all();
  bool complete() const { return culprits_.empty() && present_ + 1 == options_.world; }
  int64_t decision_ns() const;
  Answer verdict() const;
  std::string missing_text() const;
  static std::string described(const Visitor& visitor);

  JoinOptions options_;
  std::string place_;
  std::string origin_;
  uint64_t job_;
  int64_t start_ns_;
  int64_t until_ns_;               // the earliest deadline of all ranks that are here, less the time to tell them
  int64_t blamed_ns_ = INT64_MAX;  // when the first culprit was found
  Acceptor acceptor_;
  PollSet set_;
  std::vector<std::unique_ptr<Visitor>> visitors_;
  std::vector<Visitor*> by_rank_;
  uint32_t present_ = 0;
  uint32_t strays_ = 0;  // connections that proved themselves but brought no proper entry
  std::vector<std::string> culprits_;
  std::vector<std::string> left_;
  bool decided_ = false;
  std::string payload_;  // the encoded verdict
};

}  // namespace rondo
