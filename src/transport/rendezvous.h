// How ranks find each other: every rank brings its rank, the world and a blob; every rank leaves with all blobs, the
// job number and the same verdict. Blocking with a deadline; one thread.
#pragma once

#include <array>
#include <string>
#include <vector>

#include "base/clock.h"
#include "base/config.h"
#include "base/log.h"
#include "base/status.h"
#include "transport/identity.h"

namespace rondo {

struct JoinOptions {
  // "tcp://host:port" (rank 0 listens there), "file:///path" (rank 0 writes its address to that file),
  // "inproc://name" (ranks are threads of this process), "unix://name" (one host, abstract socket),
  // "probe://host:port/job" (rank 0 listens on one of the 16 ports above; `job` tells jobs apart).
  std::string rendezvous;
  // A bound, listening TCP socket inherited from the launcher: rank 0 of a tcp:// rendezvous uses it and closes it.
  int listen_fd = -1;
  Rank rank = 0;
  uint32_t world = 1;
  bool keyed = false;
  std::array<uint8_t, 32> key{};
  std::string blob;  // at most 64 KiB
  Deadline deadline;
};

struct Roster {
  Identity identity;               // with the job number that rank 0 drew
  std::vector<std::string> blobs;  // by rank
};

// Errors, on all ranks that reached the rendezvous, before the deadline where the facts are known earlier: missing
// ranks (timeout, all of them named), a rank that came twice, a rank out of range, differing worlds, a wrong key
// (auth). A roster from a file:// rendezvous is always keyed: the file's secret stands for the job key, or joins it.
Result<Roster> join(const JoinOptions& options, const Logger& log);

}  // namespace rondo
