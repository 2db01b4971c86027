// The matrix product against the definition, for every transposition and for shapes that fill no vector.
#include <catch2/catch.hpp>
#include <cstdint>
#include <vector>

#include "train/random.h"
#include "train/tensor.h"

using namespace rondo::train;

namespace {

Tensor random_matrix(size_t rows, size_t columns, Random& random) {
  Tensor matrix({rows, columns});
  for (float& x : matrix.all()) x = random.symmetric(1.0f);
  return matrix;
}

double at(const MatrixView& m, size_t row, size_t column) {
  return m.transposed ? m.data[column * m.rows + row] : m.data[row * m.columns + column];
}

void check_product(const MatrixView& a, const MatrixView& b, Into into) {
  std::vector<float> c(a.rows * b.columns, 0.5f);
  matmul(a, b, c.data(), into);
  const double before = into == Into::add ? 0.5 : 0.0;
  for (size_t i = 0; i < a.rows; ++i) {
    for (size_t j = 0; j < b.columns; ++j) {
      double expected = before;
      for (size_t k = 0; k < a.columns; ++k) expected += at(a, i, k) * at(b, k, j);
      REQUIRE(c[i * b.columns + j] == Approx(expected).margin(1e-4));
    }
  }
}

}  // namespace

TEST_CASE("matmul: every transposition of every small and odd shape agrees with the definition") {
  compute_on_this_thread_only();
  Random random(11);
  for (const size_t m : {1, 2, 7, 33}) {
    for (const size_t n : {1, 5, 17}) {
      for (const size_t k : {1, 3, 40}) {
        const Tensor a = random_matrix(m, k, random);
        const Tensor b = random_matrix(k, n, random);
        for (const bool ta : {false, true}) {
          for (const bool tb : {false, true}) {
            for (const Into into : {Into::overwrite, Into::add}) {
              check_product({a.data(), m, k, ta}, {b.data(), k, n, tb}, into);
            }
          }
        }
      }
    }
  }
}

TEST_CASE("matmul: overwriting ignores what was there, not-a-number included") {
  compute_on_this_thread_only();
  const float one = 1.0f;
  float c = std::numeric_limits<float>::quiet_NaN();
  matmul({&one, 1, 1}, {&one, 1, 1}, &c, Into::overwrite);
  CHECK(c == 1.0f);
}

TEST_CASE("tensor: memory is aligned and kept when the shape shrinks") {
  Tensor tensor({3, 5});
  CHECK(reinterpret_cast<uintptr_t>(tensor.data()) % 64 == 0);
  const float* memory = tensor.data();
  tensor.resize({2, 4});
  CHECK(tensor.data() == memory);
  CHECK(tensor.count() == 8);
  CHECK(tensor.row_count() == 4);
  CHECK(tensor.row(1).data() == memory + 4);
}

TEST_CASE("random: the numbers are fixed for ever, since seeds are quoted with results") {
  Random random(1);
  CHECK(random.next() == 0x910a2dec89025cc1u);
  CHECK(random.next() == 0xbeeb8da1658eec67u);
  for (int i = 0; i < 1000; ++i) {
    CHECK(random.below(7) < 7);
    const float x = random.symmetric(0.25f);
    CHECK((x >= -0.25f && x < 0.25f));
  }
}
