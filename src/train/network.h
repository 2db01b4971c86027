// A chain of layers with all parameters in one flat buffer and all gradients in another, in layer order. Backward runs
// from the end, so the gradients become final from the back of the buffer to its front.
#pragma once

#include <functional>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "train/layers.h"
#include "train/status.h"

namespace rondo::train {

// "gradients at and after this offset of the flat buffer are final"; a failure ends the backward pass.
using OnFinal = std::function<Status(size_t offset)>;

class Network {
 public:
  explicit Network(Extent in) : in_(in) {}

  // The next layer must read what output() of the chain so far is.
  void add(std::unique_ptr<Layer> layer);
  Extent output() const { return layers_.empty() ? in_ : layers_.back()->output(); }
  size_t parameter_count() const;
  std::string describe() const;  // the layers' names, joined by ", "

  // Both have parameter_count() elements and outlive the network.
  void bind(std::span<float> parameters, std::span<float> gradients);
  void initialise(Random& random);
  // The scores (images x output) stay valid until the next forward. `batch` must live until backward has returned.
  const Tensor& forward(const Tensor& batch);
  // grad: d loss / d scores of the last forward. Overwrites all gradients, and calls on_final after each layer that
  // has some.
  Status backward(const Tensor& batch, const Tensor& grad, const OnFinal& on_final);

 private:
  Extent in_;
  std::vector<std::unique_ptr<Layer>> layers_;
  std::vector<size_t> begin_;    // each layer's first parameter in the flat buffer
  std::vector<Tensor> outputs_;  // of each layer, from the last forward
  Tensor grads_[2];              // d loss / d output, alternating between a layer and the one before
};

// "mlp": 512 and 256 hidden units. "conv": two 3x3 convolutions with pooling and one hidden layer.
// INVALID: another name, or images too small to pool twice.
Result<std::unique_ptr<Network>> make_network(std::string_view model, Extent in, size_t classes);

}  // namespace rondo::train
