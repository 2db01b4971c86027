#include <fmt/core.h>

#include <algorithm>
#include <cmath>
#include <cstring>

#include "train/layers.h"

namespace rondo::train {

namespace {

// The part of one image row that a kernel column reads: output positions [begin, end) read input position + shift.
struct Overlap {
  size_t begin, end;
  ptrdiff_t shift;
};

Overlap overlap(size_t tap, size_t side, size_t length) {
  const auto shift = static_cast<ptrdiff_t>(tap) - static_cast<ptrdiff_t>(side / 2);
  const auto limit = static_cast<ptrdiff_t>(length);
  const ptrdiff_t begin = std::clamp<ptrdiff_t>(-shift, 0, limit);
  const ptrdiff_t end = std::clamp<ptrdiff_t>(limit - shift, begin, limit);
  return {static_cast<size_t>(begin), static_cast<size_t>(end), shift};
}

}  // namespace

Conv2d::Conv2d(const Options& options) : in_(options.in), filters_(options.filters), side_(options.side) {
  columns_.resize({patch_count(), pixel_count()});
}

std::string Conv2d::name() const {
  return fmt::format("conv {}x{} {}-{} on {}x{}", side_, side_, in_.channels, filters_, in_.height, in_.width);
}

void Conv2d::bind(std::span<float> parameters, std::span<float> gradients) {
  const size_t weights = filters_ * patch_count();
  weight_ = parameters.first(weights);
  bias_ = parameters.subspan(weights);
  weight_grad_ = gradients.first(weights);
  bias_grad_ = gradients.subspan(weights);
}

void Conv2d::initialise(Random& random) {
  const float limit = std::sqrt(6.0f / static_cast<float>(patch_count()));
  for (float& w : weight_) w = random.symmetric(limit);
  std::fill(bias_.begin(), bias_.end(), 0.0f);
}

void Conv2d::unfold(const float* image) {
  float* line = columns_.data();
  for (size_t tap = 0; tap < patch_count(); ++tap) {
    const float* plane = image + tap / (side_ * side_) * pixel_count();
    const Overlap rows = overlap(tap / side_ % side_, side_, in_.height);
    const Overlap columns = overlap(tap % side_, side_, in_.width);
    for (size_t y = 0; y < in_.height; ++y, line += in_.width) {
      if (y < rows.begin || y >= rows.end) {
        std::fill_n(line, in_.width, 0.0f);
        continue;
      }
      const float* source = plane + (static_cast<ptrdiff_t>(y) + rows.shift) * static_cast<ptrdiff_t>(in_.width);
      std::fill_n(line, columns.begin, 0.0f);
      std::copy_n(source + static_cast<ptrdiff_t>(columns.begin) + columns.shift, columns.end - columns.begin,
                  line + columns.begin);
      std::fill_n(line + columns.end, in_.width - columns.end, 0.0f);
    }
  }
}

void Conv2d::fold_add(float* image) const {
  const float* line = columns_.data();
  for (size_t tap = 0; tap < patch_count(); ++tap) {
    float* plane = image + tap / (side_ * side_) * pixel_count();
    const Overlap rows = overlap(tap / side_ % side_, side_, in_.height);
    const Overlap columns = overlap(tap % side_, side_, in_.width);
    for (size_t y = 0; y < in_.height; ++y, line += in_.width) {
      if (y < rows.begin || y >= rows.end) continue;
      float* target = plane + (static_cast<ptrdiff_t>(y) + rows.shift) * static_cast<ptrdiff_t>(in_.width);
      for (size_t x = columns.begin; x < columns.end; ++x) target[static_cast<ptrdiff_t>(x) + columns.shift] += line[x];
    }
  }
}

void Conv2d::forward(const Tensor& in, Tensor& out) {
  const size_t pixels = pixel_count();
  out.resize({in.dim(0), filters_ * pixels});
  for (size_t i = 0; i < in.dim(0); ++i) {
    unfold(in.row(i).data());
    float* image = out.row(i).data();
    for (size_t f = 0; f < filters_; ++f) std::fill_n(image + f * pixels, pixels, bias_[f]);
    matmul({weight_.data(), filters_, patch_count()}, {columns_.data(), patch_count(), pixels}, image, Into::add);
  }
}

void Conv2d::backward(const Tensor& in, const Tensor& /*out*/, const Tensor& grad_out, Tensor* grad_in) {
  const size_t pixels = pixel_count();
  std::fill(weight_grad_.begin(), weight_grad_.end(), 0.0f);
  std::fill(bias_grad_.begin(), bias_grad_.end(), 0.0f);
  if (grad_in != nullptr) {
    grad_in->resize({in.dim(0), in_.count()});
    grad_in->fill(0.0f);
  }
  for (size_t i = 0; i < in.dim(0); ++i) {
    const float* grad = grad_out.row(i).data();
    unfold(in.row(i).data());
    matmul({grad, filters_, pixels}, {columns_.data(), pixels, patch_count(), true}, weight_grad_.data(), Into::add);
    for (size_t f = 0; f < filters_; ++f) {
      float sum = 0.0f;
      for (size_t p = 0; p < pixels; ++p) sum += grad[f * pixels + p];
      bias_grad_[f] += sum;
    }
    if (grad_in == nullptr) continue;
    matmul({weight_.data(), patch_count(), filters_, true}, {grad, filters_, pixels}, columns_.data(), Into::overwrite);
    fold_add(grad_in->row(i).data());
  }
}

}  // namespace rondo::train
