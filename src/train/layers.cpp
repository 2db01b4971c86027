#include "train/layers.h"

#include <fmt/core.h>

#include <algorithm>
#include <cmath>

namespace rondo::train {

namespace {

// He's uniform initialisation: the variance of a layer's output stays that of its input through a ReLU.
void he_uniform(std::span<float> weight, size_t fan_in, Random& random) {
  const float limit = std::sqrt(6.0f / static_cast<float>(fan_in));
  for (float& w : weight) w = random.symmetric(limit);
}

}  // namespace

std::string Linear::name() const { return fmt::format("linear {}-{}", inputs_, outputs_); }

void Linear::bind(std::span<float> parameters, std::span<float> gradients) {
  weight_ = parameters.first(outputs_ * inputs_);
  bias_ = parameters.subspan(outputs_ * inputs_);
  weight_grad_ = gradients.first(outputs_ * inputs_);
  bias_grad_ = gradients.subspan(outputs_ * inputs_);
}

void Linear::initialise(Random& random) {
  he_uniform(weight_, inputs_, random);
  std::fill(bias_.begin(), bias_.end(), 0.0f);
}

void Linear::forward(const Tensor& in, Tensor& out) {
  const size_t images = in.dim(0);
  out.resize({images, outputs_});
  for (size_t i = 0; i < images; ++i) std::copy(bias_.begin(), bias_.end(), out.row(i).begin());
  matmul({in.data(), images, inputs_}, {weight_.data(), inputs_, outputs_, true}, out.data(), Into::add);
}

void Linear::backward(const Tensor& in, const Tensor& /*out*/, const Tensor& grad_out, Tensor* grad_in) {
  const size_t images = in.dim(0);
  matmul({grad_out.data(), outputs_, images, true}, {in.data(), images, inputs_}, weight_grad_.data(), Into::overwrite);
  std::fill(bias_grad_.begin(), bias_grad_.end(), 0.0f);
  for (size_t i = 0; i < images; ++i) {
    const std::span<const float> row = grad_out.row(i);
    for (size_t o = 0; o < outputs_; ++o) bias_grad_[o] += row[o];
  }
  if (grad_in == nullptr) return;
  grad_in->resize({images, inputs_});
  matmul({grad_out.data(), images, outputs_}, {weight_.data(), outputs_, inputs_}, grad_in->data(), Into::overwrite);
}

void Relu::forward(const Tensor& in, Tensor& out) {
  out.resize({in.dim(0), extent_.count()});
  const float* x = in.data();
  float* y = out.data();
  for (size_t i = 0; i < in.count(); ++i) y[i] = x[i] > 0.0f ? x[i] : 0.0f;
}

void Relu::backward(const Tensor& in, const Tensor& /*out*/, const Tensor& grad_out, Tensor* grad_in) {
  if (grad_in == nullptr) return;
  grad_in->resize({in.dim(0), extent_.count()});
  const float* x = in.data();
  const float* dy = grad_out.data();
  float* dx = grad_in->data();
  for (size_t i = 0; i < in.count(); ++i) dx[i] = x[i] > 0.0f ? dy[i] : 0.0f;
}

void MaxPool2::forward(const Tensor& in, Tensor& out) {
  const Extent to = output();
  const size_t planes = in.dim(0) * in_.channels;
  out.resize({in.dim(0), to.count()});
  winner_.resize(out.count());
  const float* x = in.data();
  for (size_t plane = 0; plane < planes; ++plane) {
    for (size_t row = 0; row < to.height; ++row) {
      const float* top = x + (plane * in_.height + 2 * row) * in_.width;
      const float* bottom = top + in_.width;
      const size_t line = (plane * to.height + row) * to.width;
      for (size_t column = 0; column < to.width; ++column) {
        const float* upper = top + 2 * column;
        const float* lower = bottom + 2 * column;
        const uint8_t best_upper = upper[1] > upper[0] ? 1 : 0;
        const uint8_t best_lower = lower[1] > lower[0] ? 1 : 0;
        const bool below = lower[best_lower] > upper[best_upper];
        out.data()[line + column] = below ? lower[best_lower] : upper[best_upper];
        winner_[line + column] = static_cast<uint8_t>(below ? 2 + best_lower : best_upper);
      }
    }
  }
}

void MaxPool2::backward(const Tensor& in, const Tensor& /*out*/, const Tensor& grad_out, Tensor* grad_in) {
  if (grad_in == nullptr) return;
  const Extent to = output();
  grad_in->resize({in.dim(0), in_.count()});
  grad_in->fill(0.0f);
  for (size_t plane = 0; plane < in.dim(0) * in_.channels; ++plane) {
    for (size_t row = 0; row < to.height; ++row) {
      float* top = grad_in->data() + (plane * in_.height + 2 * row) * in_.width;
      const size_t line = (plane * to.height + row) * to.width;
      for (size_t column = 0; column < to.width; ++column) {
        const uint8_t winner = winner_[line + column];
        top[(winner / 2) * in_.width + 2 * column + winner % 2] = grad_out.data()[line + column];
      }
    }
  }
}

LossSums softmax_cross_entropy(const Tensor& scores, std::span<const uint8_t> labels, Tensor* grad) {
  const size_t images = scores.dim(0);
  const size_t classes = scores.row_count();
  const float scale = 1.0f / static_cast<float>(std::max<size_t>(images, 1));
  if (grad != nullptr) grad->resize({images, classes});
  std::vector<float> share(classes);
  LossSums sums;
  for (size_t i = 0; i < images; ++i) {
    const std::span<const float> row = scores.row(i);
    const auto largest = std::max_element(row.begin(), row.end());
    double total = 0;
    for (size_t c = 0; c < classes; ++c) {
      share[c] = std::exp(row[c] - *largest);
      total += share[c];
    }
    sums.loss += std::log(total) - static_cast<double>(row[labels[i]] - *largest);
    if (static_cast<size_t>(largest - row.begin()) == labels[i]) ++sums.correct;
    if (grad == nullptr) continue;
    const float inverse = static_cast<float>(1.0 / total);
    for (size_t c = 0; c < classes; ++c) {
      grad->row(i)[c] = (share[c] * inverse - (c == labels[i] ? 1.0f : 0.0f)) * scale;
    }
  }
  return sums;
}

}  // namespace rondo::train
