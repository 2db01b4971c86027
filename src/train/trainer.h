// The training loop: every rank takes its share of each global batch, gradients are averaged over the ranks, and all
// ranks apply the same step to the same weights. The result depends on the seed, the world size and the options, not on
// timing. Runs on the calling thread; every rank calls it with equal options and data.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "train/data_parallel.h"
#include "train/dataset.h"
#include "train/group.h"
#include "train/status.h"

namespace rondo::train {

struct TrainOptions {
  std::string model = "mlp";
  size_t epochs = 8;
  size_t batch = 64;  // images per rank and step
  float rate = 0.1f;  // the highest learning rate, see learning_rate()
  float momentum = 0.9f;
  uint64_t seed = 1;
  size_t bucket_bytes = size_t{1} << 20;
  Overlap overlap = Overlap::with_backward;
};

struct StepNote {
  size_t epoch, step, steps;  // epoch and step from 0; steps of one epoch
  double loss;                // of this rank's batch
};

struct EpochReport {
  size_t epoch = 0;      // from 1
  double loss = 0;       // mean over the epoch's training images
  double test_loss = 0;  // mean over the test images
  double accuracy = 0;   // share of the test images, 0 to 1
  double seconds = 0;    // of training, without the test
  double test_seconds = 0;
  double images_per_second = 0;  // of training, all ranks together
  double comm_share = 0;         // of training time spent inside Rondo's calls, mean over the ranks
};

struct TrainReport {
  std::string network;
  size_t parameters = 0;
  size_t buckets = 0;
  size_t steps = 0;  // of one epoch
  std::vector<EpochReport> epochs;
  uint64_t weights_hash = 0;  // the same on all ranks, or train() has failed
};

// Called on every rank; either may be empty.
struct TrainObserver {
  std::function<void(const StepNote&)> on_step;
  std::function<void(const EpochReport&)> on_epoch;
};

// The images of one step of one epoch for one rank: a permutation of all images is drawn from (seed, epoch), and step s
// takes its next world * batch, of which rank r has part r. What does not fill a step is left out of that epoch.
class Sampler {
 public:
  struct Options {
    size_t images, batch, rank, world;
    uint64_t seed;
  };
  explicit Sampler(const Options& options);
  size_t steps() const { return options_.images / (options_.batch * options_.world); }
  void start_epoch(size_t epoch);
  std::span<const uint32_t> step(size_t step) const;

 private:
  Options options_;
  std::vector<uint32_t> order_;
};

// Failures: invalid (options that do not fit the data), comm, numeric (the loss is not finite, or the weights of two
// ranks differ at the end).
Result<TrainReport> train(Group& group, const Dataset& data, const TrainOptions& options,
                          const TrainObserver& observer);

}  // namespace rondo::train
