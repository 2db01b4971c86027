// The trainer's view of a Rondo communicator: a resource that leaves the job when it ends, and calls that turn a
// rondo_status into a train::Status with the library's own words. One thread per group.
#pragma once

#include <rondo/rondo.h>

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "train/status.h"

namespace rondo::train {

// "" and -1 mean: from the launcher's environment.
struct GroupOptions {
  std::string algorithm;  // "ring", for the allreduce alone, or Rondo's full form "allreduce:ring;broadcast:tree"
  std::string rendezvous;
  int32_t rank = -1, world = -1;
};

class Group {
 public:
  static Result<std::unique_ptr<Group>> join(const GroupOptions& options);
  ~Group() { rondo_destroy(comm_); }
  Group(const Group&) = delete;
  Group& operator=(const Group&) = delete;

  size_t rank() const { return static_cast<size_t>(rondo_rank(comm_)); }
  size_t world() const { return static_cast<size_t>(rondo_world(comm_)); }
  size_t local_world() const { return static_cast<size_t>(rondo_local_world(comm_)); }  // ranks on this host

  // All block and are called by every rank alike.
  Status sum(std::span<double> values);
  Status minimum(uint64_t& value);
  Status broadcast(std::span<float> values, size_t root);
  Result<std::vector<uint64_t>> gather(uint64_t mine);  // of all ranks, in rank order

  // Starts averaging `values` over the ranks, in place; they belong to Rondo until wait has returned.
  Result<rondo_op*> start_average(std::span<float> values);
  Status poll(rondo_op* op);  // lets started work go on; ok while it is under way
  Status wait(rondo_op* op);  // and frees op, whatever the outcome

  // Zeroed memory that peers on this host reach in place.
  // Owned by the caller and freed with free_floats before the group ends.
  Result<std::span<float>> allocate_floats(size_t count);
  void free_floats(std::span<float> floats) { rondo_free(comm_, floats.data()); }

 private:
  explicit Group(rondo_comm* comm) : comm_(comm) {}
  Status check(rondo_status status, const char* what) const;

  rondo_comm* comm_;
};

// Memory from Group::allocate_floats, freed with its owner. The group outlives it.
class GroupFloats {
 public:
  static Result<std::unique_ptr<GroupFloats>> create(Group& group, size_t count);
  ~GroupFloats() { group_.free_floats(floats_); }
  GroupFloats(const GroupFloats&) = delete;
  GroupFloats& operator=(const GroupFloats&) = delete;
  std::span<float> all() const { return floats_; }

 private:
  GroupFloats(Group& group, std::span<float> floats) : group_(group), floats_(floats) {}
  Group& group_;
  std::span<float> floats_;
};

}  // namespace rondo::train
