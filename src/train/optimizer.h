// Stochastic gradient descent with momentum over a flat parameter buffer, and the learning rate of each step.
#pragma once

#include <cstddef>
#include <span>
#include <vector>

namespace rondo::train {

class Sgd {
 public:
  Sgd(size_t count, float momentum) : momentum_(momentum), velocity_(count, 0.0f) {}
  // velocity = momentum * velocity + gradient; parameter -= rate * velocity. Element by element in float, so that equal
  // inputs give equal bits on every rank.
  void step(std::span<float> parameters, std::span<const float> gradients, float rate);

 private:
  float momentum_;
  std::vector<float> velocity_;
};

// Rises linearly to `peak` over the first twentieth of the steps, then falls linearly towards 0. step < steps.
float learning_rate(float peak, size_t step, size_t steps);

}  // namespace rondo::train
