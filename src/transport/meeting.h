// The meeting point that a rendezvous string names: how rank 0 opens it and where the others look for it.
// Used by join() only; one thread.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "base/status.h"
#include "transport/handshake.h"
#include "transport/mesh.h"
#include "transport/rendezvous.h"
#include "transport/rendezvous_wire.h"

namespace rondo {

struct Place {
  enum class Kind : uint8_t {
    tcp,    // tcp://host:port
    probe,  // probe://host:port/name: one of the kProbePorts ports above `port`; the name tells jobs apart
    file,   // file:///path
    local,  // inproc://name and unix://name: an abstract socket of this user, inproc of this process too
  };
  Kind kind = Kind::tcp;
  std::string text;  // the rendezvous as it was given
  std::string host;
  uint16_t port = 0;
  std::string name;  // probe: the job; file: the path; local: the abstract name
};
inline constexpr uint16_t kProbePorts = 16;

Result<Place> parse_place(std::string_view rendezvous);

// What the handshake at a meeting point proves.
struct Pass {
  uint64_t tag = 0;  // stands for the job number, which is not drawn yet
  bool keyed = false;
  JobKey key{};

  bool operator==(const Pass&) const = default;
};

// Rank 0's side: listens, and takes a meeting file away when it goes.
class Meeting {
 public:
  // `error` becomes EADDRINUSE where somebody listens there already.
  static Result<std::unique_ptr<Meeting>> open(const Place& place, const JoinOptions& options, int& error);
  ~Meeting();
  Meeting(const Meeting&) = delete;
  Meeting& operator=(const Meeting&) = delete;

  std::vector<int> listeners() const;
  const Pass& pass() const { return pass_; }

 private:
  Meeting() = default;
  Status open_tcp(const Place& place, const JoinOptions& options, int& error);
  Status open_file(const Place& place);

  std::vector<UniqueFd> sockets_;
  Pass pass_;
  std::string path_;
  MeetingFile file_;
};

// The others' side: where rank 0 may be found.
class Guide {
 public:
  Guide(Place place, const JoinOptions& options);

  // Looks again if it is time to; true when addresses or pass have changed.
  bool refresh(int64_t now);
  int64_t next_ns() const { return next_ns_; }
  const std::vector<std::string>& addresses() const { return addresses_; }
  const Pass& pass() const { return pass_; }
  const Status& why() const { return why_; }  // why there are no addresses

 private:
  Status look();
  Status look_up();
  Status read_file();

  Place place_;
  bool keyed_;
  JobKey key_;
  std::vector<std::string> addresses_;
  Pass pass_;
  Status why_;
  int64_t next_ns_ = 0;
};

}  // namespace rondo
