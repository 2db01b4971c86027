// Gradient averaging and whole training runs over jobs of one to four ranks.
#include "train_job.h"

#include <catch2/catch.hpp>

#include "train/data_parallel.h"
#include "train/trainer.h"

using namespace rondo::train;

namespace {

// Small integers, so that sums are exact whatever their order.
float gradient_of(size_t rank, size_t index) { return static_cast<float>((index * 7 + rank * 13) % 64); }

float average_of(size_t world, size_t index) {
  float sum = 0;
  for (size_t rank = 0; rank < world; ++rank) sum += gradient_of(rank, index);
  return sum * (1.0f / static_cast<float>(world));
}

// `steps` rounds of averaging with gradients becoming final in uneven parts from the back.
Status average_rounds(Group& group, size_t count, const GradientReducer::Options& options, int steps) {
  Result<std::unique_ptr<GroupFloats>> memory = GroupFloats::create(group, count);
  if (!memory.ok()) return memory.status();
  const std::span<float> gradients = memory.value()->all();
  GradientReducer reducer(group, gradients, options);
  for (int step = 0; step < steps; ++step) {
    for (size_t end = count; end > 0;) {
      const size_t begin = end * 2 / 3;
      for (size_t i = begin; i < end; ++i) gradients[i] = gradient_of(group.rank(), i);
      RONDO_TRAIN_TRY(reducer.final_from(begin));
      end = begin;
    }
    RONDO_TRAIN_TRY(reducer.finish());
    for (size_t i = 0; i < count; ++i) {
      if (gradients[i] == average_of(group.world(), i)) continue;
      return {Fault::numeric, "gradient " + std::to_string(i) + " is " + std::to_string(gradients[i])};
    }
  }
  return {};
}

struct Trained {
  uint64_t hash;
  double loss, accuracy;
  bool operator==(const Trained&) const = default;
};

// One run on `world` ranks; every rank's result.
std::vector<Trained> train_job(int32_t world, const Dataset& data, const TrainOptions& options) {
  std::vector<Trained> results(static_cast<size_t>(world));
  const std::vector<Status> outcomes = run_job(world, [&](Group& group) -> Status {
    Result<TrainReport> report = train(group, data, options, {});
    if (!report.ok()) return report.status();
    results[group.rank()] = {report->weights_hash, report->epochs.back().loss, report->epochs.back().accuracy};
    return {};
  });
  CHECK(first_failure(outcomes) == "");
  return results;
}

TrainOptions small_options() { return {.epochs = 2, .batch = 16, .rate = 0.05f, .bucket_bytes = size_t{256} << 10}; }

}  // namespace

TEST_CASE("buckets: they cover every gradient once, from the back, whatever the sizes") {
  CHECK(cut_buckets(0, 4).empty());
  CHECK(cut_buckets(10, 4) == std::vector<Bucket>{{8, 10}, {4, 8}, {0, 4}});
  CHECK(cut_buckets(8, 4) == std::vector<Bucket>{{4, 8}, {0, 4}});
  CHECK(cut_buckets(3, 100) == std::vector<Bucket>{{0, 3}});
  CHECK(cut_buckets(2, 0) == std::vector<Bucket>{{1, 2}, {0, 1}});
}

TEST_CASE("sampler: over one epoch the ranks see every image at most once, and the order changes with the epoch") {
  const auto epoch_of = [](size_t rank, size_t epoch, uint64_t seed) {
    Sampler sampler({.images = 103, .batch = 5, .rank = rank, .world = 4, .seed = seed});
    CHECK(sampler.steps() == 5);
    sampler.start_epoch(epoch);
    std::vector<uint32_t> images;
    for (size_t step = 0; step < sampler.steps(); ++step) {
      const std::span<const uint32_t> part = sampler.step(step);
      images.insert(images.end(), part.begin(), part.end());
    }
    return images;
  };
  std::vector<int> seen(103);
  for (size_t rank = 0; rank < 4; ++rank) {
    for (const uint32_t image : epoch_of(rank, 3, 7)) ++seen[image];
  }
  CHECK(std::count(seen.begin(), seen.end(), 1) == 100);
  CHECK(std::count(seen.begin(), seen.end(), 0) == 3);
  CHECK(epoch_of(1, 3, 7) == epoch_of(1, 3, 7));
  CHECK(epoch_of(1, 3, 7) != epoch_of(1, 4, 7));
  CHECK(epoch_of(1, 3, 7) != epoch_of(1, 3, 8));
}

TEST_CASE("reducer: every rank ends with the exact average, for any world, bucket and overlap") {
  for (const int32_t world : {1, 2, 3, 4}) {
    for (const size_t bucket_bytes : {size_t{1}, size_t{400}, size_t{1} << 20}) {
      for (const Overlap overlap : {Overlap::with_backward, Overlap::after_backward}) {
        const size_t count = bucket_bytes == 1 ? 37 : 1021;
        INFO("world " << world << ", buckets of " << bucket_bytes << " bytes");
        CHECK(first_failure(run_job(world, [&](Group& group) {
                return average_rounds(group, count, {.bucket_bytes = bucket_bytes, .overlap = overlap}, 3);
              })) == "");
      }
    }
  }
}

TEST_CASE("reducer: a rank that leaves without its part is an error on the others, not a wait for ever") {
  const std::vector<Status> outcomes = run_job(3, [](Group& group) -> Status {
    if (group.rank() == 1) return {};
    return average_rounds(group, 5000, {.bucket_bytes = 4096, .overlap = Overlap::with_backward}, 1);
  });
  for (const size_t rank : {size_t{0}, size_t{2}}) {
    INFO(outcomes[rank].text());
    CHECK(outcomes[rank].fault() == Fault::comm);
    CHECK(outcomes[rank].text().find("RONDO_OK") == std::string::npos);
    CHECK_FALSE(outcomes[rank].text().empty());
  }
}

TEST_CASE("join: an algorithm that does not exist is an error that names it") {
  const Result<std::unique_ptr<Group>> group =
      Group::join({.algorithm = "carousel", .rendezvous = "inproc://train-test-algorithm", .rank = 0, .world = 1});
  REQUIRE_FALSE(group.ok());
  CHECK(group.status().fault() == Fault::comm);
  CHECK(group.status().text().find("carousel") != std::string::npos);
}

TEST_CASE("verify: weights that differ in one bit on one rank are found on every rank") {
  const std::vector<Status> outcomes = run_job(3, [](Group& group) -> Status {
    std::vector<float> weights(100, 0.0f);
    if (group.rank() == 2) weights[99] = -0.0f;
    return verify_identical(group, weights).status();
  });
  for (const Status& outcome : outcomes) {
    CHECK(outcome.fault() == Fault::numeric);
    CHECK(outcome.text().find("weights: rank 2 has hash ") == 0);
  }
}

TEST_CASE("training: all ranks agree, it learns, and equal runs give equal bits") {
  const Dataset data = make_synthetic(640, 5);
  for (const int32_t world : {1, 2, 4}) {
    INFO("world " << world);
    const std::vector<Trained> first = train_job(world, data, small_options());
    CHECK(first[0].accuracy > 0.9);
    for (const Trained& rank : first) CHECK(rank == first[0]);
    CHECK(train_job(world, data, small_options()) == first);
  }
}

TEST_CASE("training: overlap changes when gradients travel, not one bit of the result") {
  const Dataset data = make_synthetic(320, 6);
  TrainOptions options = small_options();
  const std::vector<Trained> overlapped = train_job(3, data, options);
  options.overlap = Overlap::after_backward;
  CHECK(train_job(3, data, options) == overlapped);
}

TEST_CASE("training: the convolutional model learns too") {
  const Dataset data = make_synthetic(320, 7);
  TrainOptions options = small_options();
  options.model = "conv";
  options.epochs = 4;
  CHECK(train_job(2, data, options)[0].accuracy > 0.9);
}

TEST_CASE("training: two ranks do what one rank does with batches twice as large, up to rounding") {
  const Dataset data = make_synthetic(320, 8);
  TrainOptions options = small_options();
  const Trained two = train_job(2, data, options)[0];
  options.batch *= 2;
  const Trained one = train_job(1, data, options)[0];
  CHECK(two.loss == Approx(one.loss).epsilon(1e-3));
}

TEST_CASE("training: a loss that is not finite ends the run on all ranks") {
  const Dataset data = make_synthetic(320, 9);
  TrainOptions options = small_options();
  options.rate = 1e30f;
  const std::vector<Status> outcomes =
      run_job(2, [&](Group& group) { return train(group, data, options, {}).status(); });
  for (const Status& outcome : outcomes) {
    CHECK(outcome.fault() == Fault::numeric);
    CHECK(outcome.text().find("training: the loss of epoch 1 is ") == 0);
  }
}

TEST_CASE("training: options that do not fit the data are refused with their numbers") {
  const Dataset data = make_synthetic(40, 1);
  TrainOptions options = small_options();
  options.batch = 21;
  const auto refused = [&](Group& group) -> Status {
    uint64_t all_here = 0;
    RONDO_TRAIN_TRY(group.minimum(all_here));  // the refusal is immediate, and others may still be joining
    return train(group, data, options, {}).status();
  };
  for (const Status& outcome : run_job(2, refused)) {
    CHECK(outcome.text() == "training: 40 images do not fill one batch of 21 on 2 ranks");
  }
  options.epochs = 0;
  CHECK(first_failure(run_job(1, refused)) == "rank 0: training: batch 21 and epochs 0 must be 1 or more");
}
