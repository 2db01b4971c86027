// Data-parallel training: the flat gradient buffer is cut into buckets from its end, where backward finishes first, and
// each bucket's allreduce starts as soon as all its gradients are final, so that it runs while the layers before are
// still being differentiated. One thread; every rank makes the same calls.
#pragma once

#include <rondo/rondo.h>

#include <cstddef>
#include <memory>
#include <span>
#include <vector>

#include "train/group.h"
#include "train/status.h"

namespace rondo::train {

enum class Overlap { with_backward, after_backward };

// The buckets [begin, end) of `count` gradients, last first. Each begins at a multiple of per_bucket, so that buckets
// are aligned like the buffer, and the first to start is what is left over, so that it starts early. per_bucket 0
// counts as 1.
struct Bucket {
  size_t begin, end;
  bool operator==(const Bucket&) const = default;
};
std::vector<Bucket> cut_buckets(size_t count, size_t per_bucket);

class GradientReducer {
 public:
  struct Options {
    size_t bucket_bytes;
    Overlap overlap;
  };
  // `gradients` must outlive the reducer, and is the same length on every rank.
  GradientReducer(Group& group, std::span<float> gradients, const Options& options);
  ~GradientReducer();
  GradientReducer(const GradientReducer&) = delete;
  GradientReducer& operator=(const GradientReducer&) = delete;

  // Gradients at and after `offset` are final and not touched again before finish() has returned.
  Status final_from(size_t offset);
  // All gradients are final: averages what has not been started yet, and returns when the whole buffer holds the
  // average over all ranks.
  Status finish();

  size_t bucket_count() const { return buckets_.size(); }
  // Time this thread has spent inside Rondo's calls, over all steps so far.
  double comm_seconds() const { return comm_seconds_; }

 private:
  Status start_buckets(size_t offset);
  Status poll_started();
  Status wait_all();

  Group& group_;
  std::span<float> gradients_;
  Overlap overlap_;
  std::vector<Bucket> buckets_;
  std::vector<rondo_op*> started_;  // of buckets_[0 .. started_.size())
  double comm_seconds_ = 0;
};

// Fowler-Noll-Vo 1a, 64 bits, over the bytes of the weights.
uint64_t hash_weights(std::span<const float> weights);

// Exchanges the hashes of all ranks' weights. Failure (Fault::numeric) names the first rank that differs from rank 0.
// The value is the common hash.
Result<uint64_t> verify_identical(Group& group, std::span<const float> weights);

}  // namespace rondo::train
