// This process's place in the job: the communicator under test, its buffers, and the few small exchanges by which the
// ranks put their measurements together. One thread.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "perf/options.h"
#include "rondo/rondo.h"

namespace rondo::perf {

// Empty is success, otherwise one line that names the cause.
using ErrorText = std::string;

// "PEER: rank 3 exited without destroy", for a call on comm that has returned `status`.
ErrorText failure(const rondo_comm* comm, rondo_status status, const std::string& what);

struct CommRelease {
  void operator()(rondo_comm* comm) const { (void)rondo_destroy(comm); }
};

class Job {
 public:
  // Joins the job with the algorithm and transports of `options`. An algorithm without "collective:" before it is asked
  // for only where the first measured collective uses it, so that barriers stay free to choose.
  ErrorText join(const Options& options);
  // Joins a second job of the same ranks, forced to one algorithm for the measured collectives, and lends it this one's
  // buffers where they are private. All ranks call it with the same `number`, each once. One host only.
  ErrorText join_beside(const Job& first, const Options& options, const std::string& algorithm, int number);
  // Makes the two buffers, at least that large. Pages are touched.
  ErrorText allocate(size_t in_bytes, size_t out_bytes, bool shared_memory);

  rondo_comm* comm() const { return comm_.get(); }
  uint32_t rank() const { return static_cast<uint32_t>(rondo_rank(comm())); }
  uint32_t world() const { return static_cast<uint32_t>(rondo_world(comm())); }
  uint32_t local_world() const { return static_cast<uint32_t>(rondo_local_world(comm())); }
  void* in() const { return in_.get(); }
  void* out() const { return out_.get(); }
  std::string algorithm_of(const Call& call) const;                  // the first line of rondo_explain
  std::vector<std::string> alternatives_to(const Call& call) const;  // names of the others that could run it
  std::vector<std::string> tunable(const Call& call) const;          // those of them that a tuning file may name
  std::string tuning_section(const Call& call) const;                // the key of this job's section in such a file

  // Replaces each value by the largest (or the sum) over all ranks. Uses the collective that is not measured, because
  // the measured one may be forced to an algorithm that cannot do this call.
  ErrorText largest(Kind measured, std::vector<int64_t>& values) const { return combine(measured, RONDO_MAX, values); }
  ErrorText total(Kind measured, std::vector<int64_t>& values) const { return combine(measured, RONDO_SUM, values); }

 private:
  ErrorText init(const Options& options, const std::string& algorithm, rondo_options& wanted);
  std::string explain(const Call& call) const;
  // The rest of rondo_explain's line that begins with `mark`; empty: there is none.
  std::string explained(const Call& call, std::string_view mark) const;
  ErrorText combine(Kind measured, rondo_redop redop, std::vector<int64_t>& values) const;
  ErrorText make_buffer(size_t bytes, bool shared_memory, std::shared_ptr<void>& buffer) const;

  std::unique_ptr<rondo_comm, CommRelease> comm_;
  std::shared_ptr<void> in_, out_;  // freed before comm_
};

}  // namespace rondo::perf
