// Every layer's gradient against finite differences, the convolution against its definition, and the loss.
#include <catch2/catch.hpp>
#include <cmath>
#include <memory>
#include <vector>

#include "train/layers.h"
#include "train/network.h"
#include "train/optimizer.h"

using namespace rondo::train;

namespace {

Tensor random_batch(size_t images, size_t elements, Random& random) {
  Tensor batch({images, elements});
  for (float& x : batch.all()) x = random.symmetric(1.0f);
  return batch;
}

// A layer with parameters of its own, and the scalar it is differentiated through: the sum of outputs times fixed
// coefficients.
struct Bench {
  Bench(Layer& layer, size_t images, size_t inputs, uint64_t seed) : layer(layer), random(seed) {
    parameters.resize(layer.parameter_count());
    gradients.resize(layer.parameter_count(), std::nanf(""));  // backward must overwrite, not add
    layer.bind(parameters, gradients);
    layer.initialise(random);
    for (float& p : parameters) p += random.symmetric(0.1f);
    in = random_batch(images, inputs, random);
    coefficients = random_batch(images, layer.output().count(), random);
  }
  double value() {
    layer.forward(in, out);
    double sum = 0;
    for (size_t i = 0; i < out.count(); ++i) sum += double(out.data()[i]) * coefficients.data()[i];
    return sum;
  }
  double slope(float& x) {
    constexpr float kStep = 1.0f / 256;
    const float before = x;
    x = before + kStep;
    const double above = value();
    x = before - kStep;
    const double below = value();
    x = before;
    return (above - below) / (2 * double(kStep));
  }
  void check_gradients() {
    value();
    Tensor grad_in;
    layer.backward(in, out, coefficients, &grad_in);
    REQUIRE(grad_in.count() == in.count());
    const std::vector<float> analytic = gradients;
    for (size_t i = 0; i < parameters.size(); ++i) {
      INFO(layer.name() << ", parameter " << i);
      REQUIRE(analytic[i] == Approx(slope(parameters[i])).margin(2e-3));
    }
    for (size_t i = 0; i < in.count(); ++i) {
      INFO(layer.name() << ", input " << i);
      REQUIRE(grad_in.data()[i] == Approx(slope(in.data()[i])).margin(2e-3));
    }
  }

  Layer& layer;
  Random random;
  std::vector<float> parameters, gradients;
  Tensor in, out, coefficients;
};

// Keeps inputs away from the kinks of ReLU and maximum, where a finite difference is not the derivative.
void spread(Tensor& in, Random& random) {
  std::vector<float> values(in.count());
  for (size_t i = 0; i < values.size(); ++i) values[i] = (float(i) - float(values.size()) / 2 + 0.5f) * 0.05f;
  random.shuffle(std::span<float>(values));
  std::copy(values.begin(), values.end(), in.data());
}

}  // namespace

TEST_CASE("linear: gradients agree with finite differences") {
  compute_on_this_thread_only();
  Linear layer(7, 5);
  Bench(layer, 3, 7, 1).check_gradients();
}

TEST_CASE("conv: gradients agree with finite differences, for kernels from 1 to wider than the image") {
  compute_on_this_thread_only();
  for (const size_t side : {1, 3, 5, 7}) {
    Conv2d layer({.in = {2, 4, 3}, .filters = 3, .side = side});
    Bench(layer, 2, 24, side).check_gradients();
  }
}

TEST_CASE("relu and maxpool: gradients agree with finite differences, odd sizes included") {
  Relu relu({1, 3, 4});
  Bench rectified(relu, 2, 12, 1);
  spread(rectified.in, rectified.random);
  rectified.check_gradients();
  for (const Extent extent : {Extent{2, 4, 6}, Extent{1, 5, 3}}) {
    MaxPool2 pool(extent);
    Bench pooled(pool, 2, extent.count(), 3);
    spread(pooled.in, pooled.random);
    pooled.check_gradients();
  }
}

TEST_CASE("maxpool: of equal inputs exactly one receives the gradient") {
  MaxPool2 pool({1, 2, 2});
  Tensor in({1, 4}), out, grad({1, 1}), grad_in;
  in.fill(0.5f);
  grad.fill(3.0f);
  pool.forward(in, out);
  pool.backward(in, out, grad, &grad_in);
  CHECK(out.data()[0] == 0.5f);
  CHECK(std::vector<float>(grad_in.data(), grad_in.data() + 4) == std::vector<float>{3, 0, 0, 0});
}

TEST_CASE("conv: the forward pass agrees with the definition") {
  compute_on_this_thread_only();
  const Extent extent{3, 5, 6};
  const size_t filters = 4, side = 3;
  Conv2d layer({.in = extent, .filters = filters, .side = side});
  Bench bench(layer, 2, extent.count(), 9);
  bench.value();
  const auto pixel = [&](size_t image, size_t c, int y, int x) -> double {
    if (y < 0 || x < 0 || y >= int(extent.height) || x >= int(extent.width)) return 0;
    return bench.in.row(image)[(c * extent.height + size_t(y)) * extent.width + size_t(x)];
  };
  for (size_t image = 0; image < 2; ++image) {
    for (size_t f = 0; f < filters; ++f) {
      for (int y = 0; y < int(extent.height); ++y) {
        for (int x = 0; x < int(extent.width); ++x) {
          double expected = bench.parameters[filters * extent.channels * side * side + f];
          for (size_t c = 0; c < extent.channels; ++c) {
            for (int ky = 0; ky < 3; ++ky) {
              for (int kx = 0; kx < 3; ++kx) {
                const size_t weight = ((f * extent.channels + c) * side + size_t(ky)) * side + size_t(kx);
                expected += double(bench.parameters[weight]) * pixel(image, c, y + ky - 1, x + kx - 1);
              }
            }
          }
          const size_t place = (f * extent.height + size_t(y)) * extent.width + size_t(x);
          REQUIRE(bench.out.row(image)[place] == Approx(expected).margin(1e-4));
        }
      }
    }
  }
}

TEST_CASE("softmax cross entropy: the gradient agrees with finite differences and huge scores do not overflow") {
  Random random(5);
  Tensor scores = random_batch(3, 4, random);
  const std::vector<uint8_t> labels = {0, 3, 2};
  Tensor grad;
  softmax_cross_entropy(scores, labels, &grad);
  for (size_t i = 0; i < scores.count(); ++i) {
    const float before = scores.data()[i];
    scores.data()[i] = before + 1.0f / 256;
    const double above = softmax_cross_entropy(scores, labels, nullptr).loss;
    scores.data()[i] = before - 1.0f / 256;
    const double below = softmax_cross_entropy(scores, labels, nullptr).loss;
    scores.data()[i] = before;
    REQUIRE(grad.data()[i] == Approx((above - below) * 128 / 3).margin(1e-4));
  }
  scores.fill(0.0f);
  scores.row(0)[0] = 1e30f;
  scores.row(1)[3] = 1e30f;
  scores.row(2)[1] = 1e30f;
  const LossSums sums = softmax_cross_entropy(scores, labels, &grad);
  CHECK(sums.correct == 2);
  CHECK(sums.loss == Approx(1e30));
  CHECK(std::isfinite(grad.row(2)[2]));
}

TEST_CASE("network: gradients of the whole chain agree with finite differences and become final from the back") {
  compute_on_this_thread_only();
  Random random(17);
  Result<std::unique_ptr<Network>> made = make_network("conv", {1, 8, 8}, 3);
  REQUIRE(made.ok());
  Network& network = *made.value();
  std::vector<float> parameters(network.parameter_count()), gradients(network.parameter_count());
  network.bind(parameters, gradients);
  network.initialise(random);
  const Tensor batch = random_batch(2, 64, random);
  const std::vector<uint8_t> labels = {2, 0};
  Tensor grad;
  softmax_cross_entropy(network.forward(batch), labels, &grad);
  std::vector<size_t> offsets;
  const Status status = network.backward(batch, grad, [&](size_t offset) {
    offsets.push_back(offset);
    return Status();
  });
  REQUIRE(status.ok());
  CHECK(offsets.size() == 4);
  CHECK(std::is_sorted(offsets.rbegin(), offsets.rend()));
  CHECK(offsets.back() == 0);
  const auto mean_loss = [&] { return softmax_cross_entropy(network.forward(batch), labels, nullptr).loss / 2; };
  for (int probe = 0; probe < 200; ++probe) {
    const size_t i = random.below(parameters.size());
    const float before = parameters[i];
    parameters[i] = before + 1.0f / 512;
    const double above = mean_loss();
    parameters[i] = before - 1.0f / 512;
    const double below = mean_loss();
    parameters[i] = before;
    INFO("parameter " << i);
    REQUIRE(gradients[i] == Approx((above - below) * 256).margin(5e-3).epsilon(0.05));
  }
}

TEST_CASE("network: a failure of on_final ends the backward pass with that failure") {
  compute_on_this_thread_only();
  Result<std::unique_ptr<Network>> made = make_network("mlp", {1, 2, 2}, 3);
  REQUIRE(made.ok());
  Network& network = *made.value();
  std::vector<float> parameters(network.parameter_count()), gradients(network.parameter_count());
  network.bind(parameters, gradients);
  Tensor batch({1, 4}), grad({1, 3});
  batch.fill(1.0f);
  grad.fill(1.0f);
  network.forward(batch);
  int calls = 0;
  const Status status = network.backward(batch, grad, [&](size_t) {
    ++calls;
    return Status(Fault::comm, "rank 3 has gone");
  });
  CHECK(calls == 1);
  CHECK(status.text() == "rank 3 has gone");
}

TEST_CASE("network: an unknown model and images too small to pool are refused with their numbers") {
  const Result<std::unique_ptr<Network>> unknown = make_network("transformer", {1, 28, 28}, 10);
  CHECK(unknown.status().text() == "model: 'transformer' is none of mlp, conv");
  const Result<std::unique_ptr<Network>> small = make_network("conv", {1, 3, 9}, 10);
  CHECK(small.status().text() == "model: conv needs images of 4x4 or more, not 3x9");
}

TEST_CASE("sgd: two steps with momentum give the values worked out by hand") {
  Sgd sgd(2, 0.5f);
  std::vector<float> weights = {1.0f, -1.0f};
  const std::vector<float> gradients = {2.0f, 4.0f};
  sgd.step(weights, gradients, 0.25f);
  CHECK(weights == std::vector<float>{0.5f, -2.0f});
  sgd.step(weights, gradients, 0.25f);
  CHECK(weights == std::vector<float>{-0.25f, -3.5f});
}

TEST_CASE("learning rate: it rises, peaks, falls and stays positive for any number of steps") {
  for (const size_t steps : {1, 2, 19, 20, 400}) {
    float highest = 0;
    for (size_t step = 0; step < steps; ++step) {
      const float rate = learning_rate(0.5f, step, steps);
      CHECK(rate > 0.0f);
      CHECK(rate <= 0.5f);
      highest = std::max(highest, rate);
    }
    CHECK(highest == 0.5f);
    if (steps > 2) CHECK(learning_rate(0.5f, steps - 1, steps) < 0.3f);
  }
}
