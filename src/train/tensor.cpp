#include "train/tensor.h"

#include <dnnl.h>

#include <algorithm>
#include <functional>
#include <new>
#include <numeric>

// The OpenMP runtime that oneDNN is built on. Its header is not installed with every compiler, the entry point is
// part of the OpenMP standard.
extern "C" void omp_set_num_threads(int);

namespace rondo::train {

namespace {
constexpr size_t kAlignmentBytes = 64;
}  // namespace

void Tensor::resize(std::initializer_list<size_t> shape) {
  shape_.assign(shape);
  count_ = std::accumulate(shape_.begin(), shape_.end(), size_t{1}, std::multiplies<>());
  if (count_ <= capacity_) return;
  const size_t bytes = (count_ * sizeof(float) + kAlignmentBytes - 1) / kAlignmentBytes * kAlignmentBytes;
  auto* memory = static_cast<float*>(std::aligned_alloc(kAlignmentBytes, bytes));
  if (memory == nullptr) std::abort();  // as for any small allocation of a program, there is no way on
  data_.reset(memory);
  capacity_ = count_;
}

void Tensor::fill(float value) { std::fill_n(data_.get(), count_, value); }

void matmul(const MatrixView& a, const MatrixView& b, float* c, Into into) {
  if (a.columns != b.rows) std::abort();
  if (a.rows == 0 || b.columns == 0) return;
  // The leading dimension is that of the matrix as it lies in memory.
  const size_t lda = a.transposed ? a.rows : a.columns;
  const size_t ldb = b.transposed ? b.rows : b.columns;
  const dnnl_status_t status =
      dnnl_sgemm(a.transposed ? 'T' : 'N', b.transposed ? 'T' : 'N', static_cast<dnnl_dim_t>(a.rows),
                 static_cast<dnnl_dim_t>(b.columns), static_cast<dnnl_dim_t>(a.columns), 1.0f, a.data,
                 static_cast<dnnl_dim_t>(lda), b.data, static_cast<dnnl_dim_t>(ldb), into == Into::add ? 1.0f : 0.0f, c,
                 static_cast<dnnl_dim_t>(b.columns));
  if (status != dnnl_success) std::abort();  // only for arguments that the checks above exclude
}

void compute_on_this_thread_only() { omp_set_num_threads(1); }

}  // namespace rondo::train
