#include "train/layers.h"

#include <fmt/core.h>

#include <algorithm>
#include <bit>
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

// Both loops read everything and then choose: the signs are as good as random, and a branch on them costs more than the
// arithmetic of the layer before.
void Relu::forward(const Tensor& in, Tensor& out) {
  out.resize({in.dim(0), extent_.count()});
  const float* __restrict x = in.data();
  float* __restrict y = out.data();
  for (size_t i = 0; i < in.count(); ++i) y[i] = std::max(x[i], 0.0f);
}

void Relu::backward(const Tensor& in, const Tensor& /*out*/, const Tensor& grad_out, Tensor* grad_in) {
  if (grad_in == nullptr) return;
  grad_in->resize({in.dim(0), extent_.count()});
  const float* __restrict x = in.data();
  const float* __restrict dy = grad_out.data();
  float* __restrict dx = grad_in->data();
  for (size_t i = 0; i < in.count(); ++i) {
    const float gradient = dy[i];
    dx[i] = x[i] > 0.0f ? gradient : 0.0f;
  }
}

namespace {

// `value` where chosen is 1, 0 where it is 0; no branch, for the same reason as in Relu.
float masked(float value, uint32_t chosen) { return std::bit_cast<float>(std::bit_cast<uint32_t>(value) & -chosen); }

void pool_line(const float* __restrict upper, const float* __restrict lower, size_t width, float* __restrict out) {
  for (size_t x = 0; x < width; ++x) {
    out[x] = std::max(std::max(upper[2 * x], upper[2 * x + 1]), std::max(lower[2 * x], lower[2 * x + 1]));
  }
}

// The gradient goes to the first of the four that equals the maximum, and to no other: flat image regions tie often.
void unpool_line(const float* __restrict upper, const float* __restrict lower, const float* __restrict largest,
                 const float* __restrict grad, size_t width, float* __restrict upper_grad,
                 float* __restrict lower_grad) {
  for (size_t x = 0; x < width; ++x) {
    const uint32_t first = upper[2 * x] == largest[x];
    const uint32_t second = (upper[2 * x + 1] == largest[x]) & (first ^ 1);
    const uint32_t third = (lower[2 * x] == largest[x]) & ((first | second) ^ 1);
    const uint32_t fourth = (first | second | third) ^ 1;
    upper_grad[2 * x] = masked(grad[x], first);
    upper_grad[2 * x + 1] = masked(grad[x], second);
    lower_grad[2 * x] = masked(grad[x], third);
    lower_grad[2 * x + 1] = masked(grad[x], fourth);
  }
}

}  // namespace

void MaxPool2::forward(const Tensor& in, Tensor& out) {
  const Extent to = output();
  out.resize({in.dim(0), to.count()});
  for (size_t plane = 0; plane < in.dim(0) * in_.channels; ++plane) {
    for (size_t row = 0; row < to.height; ++row) {
      const float* upper = in.data() + (plane * in_.height + 2 * row) * in_.width;
      pool_line(upper, upper + in_.width, to.width, out.data() + (plane * to.height + row) * to.width);
    }
  }
}

void MaxPool2::backward(const Tensor& in, const Tensor& out, const Tensor& grad_out, Tensor* grad_in) {
  if (grad_in == nullptr) return;
  const Extent to = output();
  grad_in->resize({in.dim(0), in_.count()});
  if (in_.height % 2 != 0 || in_.width % 2 != 0) grad_in->fill(0.0f);  // what no square covers
  for (size_t plane = 0; plane < in.dim(0) * in_.channels; ++plane) {
    for (size_t row = 0; row < to.height; ++row) {
      const size_t top = (plane * in_.height + 2 * row) * in_.width;
      const size_t line = (plane * to.height + row) * to.width;
      unpool_line(in.data() + top, in.data() + top + in_.width, out.data() + line, grad_out.data() + line, to.width,
                  grad_in->data() + top, grad_in->data() + top + in_.width);
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
