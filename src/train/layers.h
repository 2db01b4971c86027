// The layers of a network and the loss. A layer owns no parameters: it is bound to its slice of the network's flat
// parameter and gradient memory, so that the gradients of all layers are one buffer the reducer can cut at will.
// forward and backward alternate on one thread; a layer may keep what it needs from the last forward.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>

#include "train/random.h"
#include "train/tensor.h"

namespace rondo::train {

// One image (or feature vector: 1 x 1 x width) as a layer sees it: channels of height rows of width elements.
struct Extent {
  size_t channels = 1, height = 1, width = 1;
  size_t count() const { return channels * height * width; }
  bool operator==(const Extent&) const = default;
};

class Layer {
 public:
  virtual ~Layer() = default;
  virtual std::string name() const = 0;  // such as "linear 784-256"
  virtual Extent output() const = 0;     // of one image
  virtual size_t parameter_count() const { return 0; }
  // Both spans have parameter_count() elements and outlive the layer.
  virtual void bind(std::span<float> /*parameters*/, std::span<float> /*gradients*/) {}
  // Fills the bound parameters with their first values.
  virtual void initialise(Random&) {}
  // in: images x elements. out is resized.
  virtual void forward(const Tensor& in, Tensor& out) = 0;
  // Overwrites the bound gradients with d loss / d parameters, and, unless grad_in is null, resizes and fills it with
  // d loss / d in. `in` and `out` are those of the last forward.
  virtual void backward(const Tensor& in, const Tensor& out, const Tensor& grad_out, Tensor* grad_in) = 0;
};

class Linear : public Layer {
 public:
  Linear(size_t inputs, size_t outputs) : inputs_(inputs), outputs_(outputs) {}
  std::string name() const override;
  Extent output() const override { return {1, 1, outputs_}; }
  size_t parameter_count() const override { return outputs_ * inputs_ + outputs_; }
  void bind(std::span<float> parameters, std::span<float> gradients) override;
  void initialise(Random& random) override;
  void forward(const Tensor& in, Tensor& out) override;
  void backward(const Tensor& in, const Tensor& out, const Tensor& grad_out, Tensor* grad_in) override;

 private:
  size_t inputs_, outputs_;
  std::span<float> weight_, bias_;  // weight: outputs x inputs
  std::span<float> weight_grad_, bias_grad_;
};

class Relu : public Layer {
 public:
  explicit Relu(Extent extent) : extent_(extent) {}
  std::string name() const override { return "relu"; }
  Extent output() const override { return extent_; }
  void forward(const Tensor& in, Tensor& out) override;
  void backward(const Tensor& in, const Tensor& out, const Tensor& grad_out, Tensor* grad_in) override;

 private:
  Extent extent_;
};

// A square kernel of odd side, stride 1, zero padding that keeps height and width. Computed as a matrix product over
// the unfolded image ("im2col"), one image at a time, so that the unfolded form stays in the cache.
class Conv2d : public Layer {
 public:
  struct Options {
    Extent in;
    size_t filters;
    size_t side;  // of the kernel; odd
  };
  explicit Conv2d(const Options& options);
  std::string name() const override;
  Extent output() const override { return {filters_, in_.height, in_.width}; }
  size_t parameter_count() const override { return filters_ * patch_count() + filters_; }
  void bind(std::span<float> parameters, std::span<float> gradients) override;
  void initialise(Random& random) override;
  void forward(const Tensor& in, Tensor& out) override;
  void backward(const Tensor& in, const Tensor& out, const Tensor& grad_out, Tensor* grad_in) override;

 private:
  size_t patch_count() const { return in_.channels * side_ * side_; }
  size_t pixel_count() const { return in_.height * in_.width; }
  void unfold(const float* image);    // image -> columns_ (patch x pixels)
  void fold_add(float* image) const;  // adds columns_ back onto the image

  Extent in_;
  size_t filters_, side_;
  Tensor columns_;
  std::span<float> weight_, bias_;  // weight: filters x patch
  std::span<float> weight_grad_, bias_grad_;
};

// Maximum over squares of 2 x 2; an odd last row or column is left out.
class MaxPool2 : public Layer {
 public:
  explicit MaxPool2(Extent in) : in_(in) {}
  std::string name() const override { return "maxpool 2x2"; }
  Extent output() const override { return {in_.channels, in_.height / 2, in_.width / 2}; }
  void forward(const Tensor& in, Tensor& out) override;
  void backward(const Tensor& in, const Tensor& out, const Tensor& grad_out, Tensor* grad_in) override;

 private:
  Extent in_;
};

struct LossSums {
  double loss = 0;     // summed over the images, not averaged
  size_t correct = 0;  // images whose largest score is their label's
};

// Softmax cross entropy of `scores` (images x classes) against labels below `classes`. grad, unless null, becomes the
// gradient of the *mean* loss over this batch.
LossSums softmax_cross_entropy(const Tensor& scores, std::span<const uint8_t> labels, Tensor* grad);

}  // namespace rondo::train
