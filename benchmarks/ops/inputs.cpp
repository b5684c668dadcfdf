#include <ATen/ops/empty.h>
#include <ATen/ops/randn.h>
#include <fmt/format.h>
#include <fmt/ranges.h>

#include "benchmarks/ops/op_benchmark.h"

namespace packtrain {

at::Tensor random_numbers(at::IntArrayRef shape, at::ScalarType dtype, double scale) {
  at::Tensor numbers = at::randn(shape, at::TensorOptions(dtype).device(at::kCUDA, 0));
  return numbers.mul_(scale);
}

Parameter random_weight(at::IntArrayRef shape, at::ScalarType grad_dtype) {
  constexpr double kDeviation = 0.02;
  return {random_numbers(shape, at::kBFloat16, kDeviation),
          at::empty(shape, at::TensorOptions(grad_dtype).device(at::kCUDA, 0)), false};
}

std::string shape_text(at::IntArrayRef shape) {
  return fmt::format("{}", fmt::join(shape, " x "));
}

}  // namespace packtrain
