#include "train/network.h"

#include <fmt/core.h>

namespace rondo::train {

void Network::add(std::unique_ptr<Layer> layer) {
  begin_.push_back(parameter_count());
  layers_.push_back(std::move(layer));
  outputs_.emplace_back();
}

size_t Network::parameter_count() const {
  size_t count = 0;
  for (const auto& layer : layers_) count += layer->parameter_count();
  return count;
}

std::string Network::describe() const {
  std::string text;
  for (const auto& layer : layers_) text += (text.empty() ? "" : ", ") + layer->name();
  return text;
}

void Network::bind(std::span<float> parameters, std::span<float> gradients) {
  for (size_t i = 0; i < layers_.size(); ++i) {
    const size_t count = layers_[i]->parameter_count();
    layers_[i]->bind(parameters.subspan(begin_[i], count), gradients.subspan(begin_[i], count));
  }
}

void Network::initialise(Random& random) {
  for (const auto& layer : layers_) layer->initialise(random);
}

const Tensor& Network::forward(const Tensor& batch) {
  const Tensor* in = &batch;
  for (size_t i = 0; i < layers_.size(); ++i) {
    layers_[i]->forward(*in, outputs_[i]);
    in = &outputs_[i];
  }
  return *in;
}

Status Network::backward(const Tensor& batch, const Tensor& grad, const OnFinal& on_final) {
  const Tensor* grad_out = &grad;
  for (size_t i = layers_.size(); i-- > 0;) {
    const Tensor& in = i == 0 ? batch : outputs_[i - 1];
    Tensor* grad_in = i == 0 ? nullptr : &grads_[i % 2];
    layers_[i]->backward(in, outputs_[i], *grad_out, grad_in);
    grad_out = grad_in;
    if (layers_[i]->parameter_count() > 0) RONDO_TRAIN_TRY(on_final(begin_[i]));
  }
  return {};
}

namespace {

void add_dense(Network& network, std::initializer_list<size_t> hidden, size_t classes) {
  for (const size_t units : hidden) {
    network.add(std::make_unique<Linear>(network.output().count(), units));
    network.add(std::make_unique<Relu>(network.output()));
  }
  network.add(std::make_unique<Linear>(network.output().count(), classes));
}

// Pooling before the ReLU gives the same values, since neither changes an order, and leaves a quarter to the ReLU.
void add_conv(Network& network, size_t filters) {
  network.add(std::make_unique<Conv2d>(Conv2d::Options{.in = network.output(), .filters = filters, .side = 3}));
  network.add(std::make_unique<MaxPool2>(network.output()));
  network.add(std::make_unique<Relu>(network.output()));
}

}  // namespace

Result<std::unique_ptr<Network>> make_network(std::string_view model, Extent in, size_t classes) {
  auto network = std::make_unique<Network>(in);
  if (model == "mlp") {
    add_dense(*network, {512, 256}, classes);
    return network;
  }
  if (model != "conv") {
    return Status(Fault::invalid, fmt::format("model: '{}' is none of mlp, conv", model));
  }
  if (in.height < 4 || in.width < 4) {
    return Status(Fault::invalid,
                  fmt::format("model: conv needs images of 4x4 or more, not {}x{}", in.height, in.width));
  }
  add_conv(*network, 16);
  add_conv(*network, 32);
  add_dense(*network, {128}, classes);
  return network;
}

}  // namespace rondo::train
