// What the launcher says: which rank of how many this process is, and where the ranks can meet. Pure functions of a
// Config; any thread.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "base/config.h"
#include "base/status.h"
#include "base/types.h"

namespace rondo {

struct Placement {
  Rank rank = 0;
  uint32_t world = 1;
  std::optional<Rank> local_rank;  // as the launcher counts; it may not say
  std::optional<uint32_t> local_world;
  // "options", "rondo", "horovod", "torchrun", "open mpi", "pmi", "slurm", or "none" for rank 0 of 1.
  std::string family;
  // Where to meet: RONDO_RENDEZVOUS when it is given, else derived from the launcher's variables; empty when a world of
  // more than one rank has no way to meet, and when the world is 1.
  std::string rendezvous;
};

// Rank and world come from one family, the first that has both, in the order of the list above. `user` (the numeric
// user id) and `parent` (the parent process, the same for all ranks of a Hydra job on one host) go into the names of
// abstract sockets, so that jobs and users do not meet by accident.
// Invalid: a value that is not a number, a rank outside its world, only one of RONDO_RANK and RONDO_WORLD, or PMIX_RANK
// with nothing that tells the number of ranks.
Result<Placement> placement(const Config& config, uint32_t user, int64_t parent);

// The first host of a Slurm node list: "gpu[07-09,12],login" gives "gpu07". Empty when the list is malformed.
std::string first_slurm_host(const std::string& list);

}  // namespace rondo
