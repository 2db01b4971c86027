// Starting the ranks: the meeting point, the job key, the environment, and one process group per rank that ends with
// the launcher. Descriptors are owned by the structures here and closed when they go.
#pragma once

#include <sys/resource.h>
#include <sys/types.h>

#include <cstdint>
#include <string>
#include <vector>

#include "base/fd.h"
#include "run/cpus.h"
#include "run/options.h"

namespace rondo::run {

// What all ranks of a job share. The listening socket is bound once, here, and inherited by rank 0, so that no other
// process can take the port in between; the key is in sealed anonymous memory, so that it is in no argument list, in no
// environment and in no file system.
struct Meeting {
  UniqueFd listener;
  uint16_t port = 0;
  UniqueFd key;
  rlimit descriptors{};  // the limit that ranks start with
};
ErrorText make_meeting(uint32_t ranks, Meeting& meeting);

struct Process {
  uint32_t rank = 0;
  pid_t pid = 0;    // also its process group
  UniqueFd pidfd;   // readable once the process has ended
  UniqueFd output;  // read end of its stdout, when the launcher merges output
  UniqueFd errors;  // read end of its stderr
};

// Starts rank `rank`. Blocks until its program has been replaced by the command or has failed to be; `error_number` is
// then the errno of that failure, 0 otherwise.
ErrorText spawn(const Options& options, const Meeting& meeting, uint32_t rank, const CpuList& cpus, Process& process,
                int& error_number);

// Starts the guardian: a child that kills every process group of `processes` when the launcher dies without telling it
// to leave, so that not even children of ranks are left behind. Returns the descriptor whose closing, after one byte,
// tells it to leave. Without one (no process to be had) ranks still end with the launcher, but not their children.
UniqueFd start_guardian(const std::vector<Process>& processes, pid_t& pid);

// Raises the soft descriptor limit of the launcher, which holds three descriptors per rank, to the hard one; returns
// the limit as it was.
rlimit raise_descriptor_limit();

}  // namespace rondo::run
