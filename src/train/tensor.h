// Dense row-major float tensors and the one matrix product all layers use. A Tensor owns 64-byte aligned memory and
// keeps its capacity when it is reshaped, so that a training step allocates nothing after the first batch.
// No tensor is shared between threads.
#pragma once

#include <cstddef>
#include <cstdlib>
#include <initializer_list>
#include <memory>
#include <span>
#include <vector>

namespace rondo::train {

class Tensor {
 public:
  Tensor() = default;
  explicit Tensor(std::initializer_list<size_t> shape) { resize(shape); }
  Tensor(const Tensor&) = delete;
  Tensor& operator=(const Tensor&) = delete;
  Tensor(Tensor&&) = default;
  Tensor& operator=(Tensor&&) = default;

  // Contents are unspecified after growth; existing memory is reused when it is large enough.
  void resize(std::initializer_list<size_t> shape);
  void fill(float value);

  const std::vector<size_t>& shape() const { return shape_; }
  size_t dim(size_t axis) const { return shape_[axis]; }
  size_t count() const { return count_; }
  // Elements of one row: everything below the first axis.
  size_t row_count() const { return shape_.empty() || shape_[0] == 0 ? 0 : count_ / shape_[0]; }

  float* data() { return data_.get(); }
  const float* data() const { return data_.get(); }
  std::span<float> all() { return {data_.get(), count_}; }
  std::span<const float> all() const { return {data_.get(), count_}; }
  std::span<float> row(size_t index) { return {data_.get() + index * row_count(), row_count()}; }
  std::span<const float> row(size_t index) const { return {data_.get() + index * row_count(), row_count()}; }

 private:
  struct Free {
    void operator()(float* memory) const { std::free(memory); }
  };
  std::vector<size_t> shape_;
  size_t count_ = 0;
  size_t capacity_ = 0;
  std::unique_ptr<float[], Free> data_;
};

// A matrix in row-major memory as a matrix product reads it: `transposed` says that the product wants its transpose.
// rows and columns are those after transposition.
struct MatrixView {
  const float* data;
  size_t rows, columns;
  bool transposed = false;
};

enum class Into { overwrite, add };

// c (a.rows x b.columns, row-major) = or += a * b, on the calling thread alone. Needs a.columns == b.rows.
void matmul(const MatrixView& a, const MatrixView& b, float* c, Into into);

// Keeps the matrix library to the calling thread: every rank of a job is one thread of arithmetic. Call once in each
// thread that computes.
void compute_on_this_thread_only();

}  // namespace rondo::train
