// Values of supervised rows, and of the examples that have these rows.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>

namespace packtrain {

// The rows of an example follow one another. E examples with N rows, both at least 1. Sums are
// float64, deterministic, and wait for nothing.
class ExampleRows {
 public:
  // `num_rows`: int64 [E], at least 1 each; their sum is `total`.
  ExampleRows(const at::Tensor& num_rows, std::int64_t total);

  // float64 [N] to float64 [E]: the sum over the rows of each example.
  at::Tensor sum(const at::Tensor& of_rows) const;
  // [E] to [N]: each row gets the value of its example.
  at::Tensor spread(const at::Tensor& of_examples) const;
  const at::Tensor& counts() const { return counts_; }  // float64 [E] rows of each example
  std::int64_t num_examples() const { return num_rows_.size(0); }

 private:
  at::Tensor num_rows_;
  at::Tensor counts_;
  std::int64_t total_;
};

}  // namespace packtrain
