#include "train/data_parallel.h"

#include <fmt/core.h>

#include <algorithm>
#include <chrono>

namespace rondo::train {

namespace {

// Adds the time from its birth to its end to a total.
class Stopwatch {
 public:
  explicit Stopwatch(double& total) : total_(total), begin_(std::chrono::steady_clock::now()) {}
  ~Stopwatch() { total_ += std::chrono::duration<double>(std::chrono::steady_clock::now() - begin_).count(); }
  Stopwatch(const Stopwatch&) = delete;
  Stopwatch& operator=(const Stopwatch&) = delete;

 private:
  double& total_;
  std::chrono::steady_clock::time_point begin_;
};

}  // namespace

std::vector<Bucket> cut_buckets(size_t count, size_t per_bucket) {
  const size_t step = std::max<size_t>(per_bucket, 1);
  std::vector<Bucket> buckets;
  for (size_t end = count; end > 0;) {
    const size_t begin = (end - 1) / step * step;
    buckets.push_back({begin, end});
    end = begin;
  }
  return buckets;
}

GradientReducer::GradientReducer(Group& group, std::span<float> gradients, const Options& options)
    : group_(group),
      gradients_(gradients),
      overlap_(options.overlap),
      buckets_(cut_buckets(gradients.size(), options.bucket_bytes / sizeof(float))) {
  started_.reserve(buckets_.size());
}

GradientReducer::~GradientReducer() {
  // After a failure operations may be left; the memory behind them is Rondo's until they have ended.
  static_cast<void>(wait_all().ok());
}

Status GradientReducer::final_from(size_t offset) {
  if (overlap_ == Overlap::after_backward) return {};
  const Stopwatch watch(comm_seconds_);
  RONDO_TRAIN_TRY(start_buckets(offset));
  return poll_started();
}

Status GradientReducer::finish() {
  const Stopwatch watch(comm_seconds_);
  RONDO_TRAIN_TRY(start_buckets(0));
  return wait_all();
}

Status GradientReducer::start_buckets(size_t offset) {
  while (started_.size() < buckets_.size() && buckets_[started_.size()].begin >= offset) {
    const Bucket bucket = buckets_[started_.size()];
    Result<rondo_op*> op = group_.start_average(gradients_.subspan(bucket.begin, bucket.end - bucket.begin));
    if (!op.ok()) return op.status();
    started_.push_back(op.value());
  }
  return {};
}

Status GradientReducer::poll_started() {
  // One test drives everything that is under way, whichever operation it asks about.
  return started_.empty() ? Status() : group_.poll(started_.back());
}

Status GradientReducer::wait_all() {
  Status first;
  for (rondo_op* op : started_) {
    Status outcome = group_.wait(op);
    if (first.ok()) first = std::move(outcome);
  }
  started_.clear();
  return first;
}

uint64_t hash_weights(std::span<const float> weights) {
  uint64_t hash = 0xcbf29ce484222325u;
  for (const std::byte byte : std::as_bytes(weights)) {
    hash = (hash ^ static_cast<uint64_t>(byte)) * 0x100000001b3u;
  }
  return hash;
}

Result<uint64_t> verify_identical(Group& group, std::span<const float> weights) {
  Result<std::vector<uint64_t>> hashes = group.gather(hash_weights(weights));
  if (!hashes.ok()) return hashes.status();
  const std::vector<uint64_t>& all = hashes.value();
  for (size_t rank = 1; rank < all.size(); ++rank) {
    if (all[rank] == all[0]) continue;
    return Status(Fault::numeric,
                  fmt::format("weights: rank {} has hash {:016x}, rank 0 has {:016x}", rank, all[rank], all[0]));
  }
  return all[0];
}

}  // namespace rondo::train
