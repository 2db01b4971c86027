#include "train/trainer.h"

#include <fmt/core.h>

#include <array>
#include <chrono>
#include <cmath>
#include <numeric>

#include "train/network.h"
#include "train/optimizer.h"

namespace rondo::train {

Sampler::Sampler(const Options& options) : options_(options), order_(options.images) { start_epoch(0); }

void Sampler::start_epoch(size_t epoch) {
  std::iota(order_.begin(), order_.end(), 0u);
  Random mixed(options_.seed ^ Random(epoch + 1).next());
  mixed.shuffle(std::span<uint32_t>(order_));
}

std::span<const uint32_t> Sampler::step(size_t step) const {
  const size_t part = step * options_.world + options_.rank;
  return std::span<const uint32_t>(order_).subspan(part * options_.batch, options_.batch);
}

namespace {

double seconds_since(std::chrono::steady_clock::time_point begin) {
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
}

struct EpochSums {
  double loss = 0, seconds = 0, comm_seconds = 0;
};

// One rank's part in one job: everything a step needs, allocated once.
class Run {
 public:
  Run(Group& group, const Dataset& data, const TrainOptions& options, const TrainObserver& observer)
      : group_(group),
        data_(data),
        options_(options),
        observer_(observer),
        sampler_({.images = data.train.count,
                  .batch = options.batch,
                  .rank = group.rank(),
                  .world = group.world(),
                  .seed = options.seed}) {}

  Result<TrainReport> all_epochs();

 private:
  Status prepare(TrainReport& report);
  Status train_epoch(size_t epoch, EpochSums& sums);
  Status test(EpochReport& report);
  Result<EpochReport> one_epoch(size_t epoch);

  Group& group_;
  const Dataset& data_;
  const TrainOptions& options_;
  const TrainObserver& observer_;
  Sampler sampler_;
  std::unique_ptr<Network> network_;
  Tensor weights_;
  std::unique_ptr<GroupFloats> gradients_;  // before the reducer: freed after it
  std::unique_ptr<GradientReducer> reducer_;
  std::unique_ptr<Sgd> sgd_;
  Tensor batch_, grad_;
  std::vector<uint8_t> labels_;
};

Status Run::prepare(TrainReport& report) {
  Result<std::unique_ptr<Network>> network = make_network(options_.model, data_.train.extent, data_.classes);
  if (!network.ok()) return network.status();
  network_ = std::move(network).value();
  const size_t count = network_->parameter_count();
  weights_.resize({count});
  weights_.fill(0.0f);
  Result<std::unique_ptr<GroupFloats>> gradients = GroupFloats::create(group_, count);
  if (!gradients.ok()) return gradients.status();
  gradients_ = std::move(gradients).value();
  network_->bind(weights_.all(), gradients_->all());
  reducer_ = std::make_unique<GradientReducer>(
      group_, gradients_->all(),
      GradientReducer::Options{.bucket_bytes = options_.bucket_bytes, .overlap = options_.overlap});
  sgd_ = std::make_unique<Sgd>(count, options_.momentum);
  report.network = network_->describe();
  report.parameters = count;
  report.buckets = reducer_->bucket_count();
  report.steps = sampler_.steps();
  if (group_.rank() == 0) {
    Random random(options_.seed);
    network_->initialise(random);
  }
  return group_.broadcast(weights_.all(), 0);
}

Status Run::train_epoch(size_t epoch, EpochSums& sums) {
  const auto begin = std::chrono::steady_clock::now();
  const double comm_before = reducer_->comm_seconds();
  const size_t steps = sampler_.steps();
  sampler_.start_epoch(epoch);
  for (size_t step = 0; step < steps; ++step) {
    gather_batch(data_, data_.train, sampler_.step(step), batch_, labels_);
    const double loss = softmax_cross_entropy(network_->forward(batch_), labels_, &grad_).loss;
    RONDO_TRAIN_TRY(network_->backward(batch_, grad_, [&](size_t offset) { return reducer_->final_from(offset); }));
    RONDO_TRAIN_TRY(reducer_->finish());
    sgd_->step(weights_.all(), gradients_->all(),
               learning_rate(options_.rate, epoch * steps + step, options_.epochs * steps));
    sums.loss += loss;
    if (observer_.on_step) {
      observer_.on_step({.epoch = epoch, .step = step, .steps = steps, .loss = loss / double(options_.batch)});
    }
  }
  sums.seconds = seconds_since(begin);
  sums.comm_seconds = reducer_->comm_seconds() - comm_before;
  return {};
}

Status Run::test(EpochReport& report) {
  const auto begin = std::chrono::steady_clock::now();
  const size_t count = data_.test.count;
  const size_t first = group_.rank() * count / group_.world();
  const size_t last = (group_.rank() + 1) * count / group_.world();
  constexpr size_t kTestBatch = 250;
  std::vector<uint32_t> chosen;
  LossSums sums;
  for (size_t at = first; at < last; at += chosen.size()) {
    chosen.resize(std::min(kTestBatch, last - at));
    std::iota(chosen.begin(), chosen.end(), static_cast<uint32_t>(at));
    gather_batch(data_, data_.test, chosen, batch_, labels_);
    const LossSums part = softmax_cross_entropy(network_->forward(batch_), labels_, nullptr);
    sums.loss += part.loss;
    sums.correct += part.correct;
  }
  std::array<double, 2> shared = {sums.loss, static_cast<double>(sums.correct)};
  RONDO_TRAIN_TRY(group_.sum(shared));
  report.test_loss = shared[0] / static_cast<double>(count);
  report.accuracy = shared[1] / static_cast<double>(count);
  report.test_seconds = seconds_since(begin);
  return {};
}

Result<EpochReport> Run::one_epoch(size_t epoch) {
  EpochSums sums;
  if (Status trained = train_epoch(epoch, sums); !trained.ok()) return trained;
  const double share = sums.seconds > 0 ? sums.comm_seconds / sums.seconds : 0;
  std::array<double, 2> shared = {sums.loss, share};
  if (Status summed = group_.sum(shared); !summed.ok()) return summed;
  const auto world = static_cast<double>(group_.world());
  const double images = static_cast<double>(sampler_.steps() * options_.batch) * world;
  EpochReport report{.epoch = epoch + 1,
                     .loss = shared[0] / images,
                     .seconds = sums.seconds,
                     .images_per_second = images / sums.seconds,
                     .comm_share = shared[1] / world};
  // The sum has the same bits everywhere, so all ranks stop together.
  if (!std::isfinite(report.loss)) {
    return Status(Fault::numeric, fmt::format("training: the loss of epoch {} is {}", report.epoch, report.loss));
  }
  if (Status tested = test(report); !tested.ok()) return tested;
  return report;
}

Result<TrainReport> Run::all_epochs() {
  TrainReport report;
  if (Status prepared = prepare(report); !prepared.ok()) return prepared;
  for (size_t epoch = 0; epoch < options_.epochs; ++epoch) {
    Result<EpochReport> done = one_epoch(epoch);
    if (!done.ok()) return done.status();
    report.epochs.push_back(done.value());
    if (observer_.on_epoch) observer_.on_epoch(done.value());
  }
  Result<uint64_t> hash = verify_identical(group_, weights_.all());
  if (!hash.ok()) return hash.status();
  report.weights_hash = hash.value();
  return report;
}

}  // namespace

Result<TrainReport> train(Group& group, const Dataset& data, const TrainOptions& options,
                          const TrainObserver& observer) {
  if (options.batch == 0 || options.epochs == 0) {
    return Status(Fault::invalid,
                  fmt::format("training: batch {} and epochs {} must be 1 or more", options.batch, options.epochs));
  }
  if (data.train.count / options.batch < group.world()) {
    return Status(Fault::invalid, fmt::format("training: {} images do not fill one batch of {} on {} ranks",
                                              data.train.count, options.batch, group.world()));
  }
  Run run(group, data, options, observer);
  return run.all_epochs();
}

}  // namespace rondo::train
