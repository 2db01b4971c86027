#include "train/optimizer.h"

#include <algorithm>

namespace rondo::train {

void Sgd::step(std::span<float> parameters, std::span<const float> gradients, float rate) {
  float* weight = parameters.data();
  const float* grad = gradients.data();
  float* velocity = velocity_.data();
  for (size_t i = 0; i < velocity_.size(); ++i) {
    velocity[i] = momentum_ * velocity[i] + grad[i];
    weight[i] -= rate * velocity[i];
  }
}

float learning_rate(float peak, size_t step, size_t steps) {
  const size_t rise = std::max<size_t>(steps / 20, 1);
  if (step < rise) return peak * static_cast<float>(step + 1) / static_cast<float>(rise);
  return peak * static_cast<float>(steps - step) / static_cast<float>(steps - rise + 1);
}

}  // namespace rondo::train
