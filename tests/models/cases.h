// Shared by tests of operators: devices, dtypes, tolerances, comparisons with float64.
#pragma once

#include <ATen/core/Tensor.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "models/block/block.h"

namespace packtrain {

// One combination to run a test on. The CPU always; CUDA too with PACKTRAIN_TEST_DEVICE=cuda.
struct OperatorCase {
  at::Device device;
  at::ScalarType dtype;
  // Largest error allowed, as a share of the largest reference value: some float32 sums' rounding,
  // or a few roundings to bfloat16 (2^-9 each).
  double tolerance;

  at::TensorOptions options() const { return at::TensorOptions(dtype).device(device); }
};

std::vector<OperatorCase> operator_cases();
std::string case_name(const testing::TestParamInfo<OperatorCase>& info);

// Standard normal numbers, rounded to the case's dtype; the same on every device.
at::Tensor random_tensor(const OperatorCase& on, at::IntArrayRef shape, std::string_view name);
// A parameter of random values whose gradient is full of NaN until written.
Parameter random_parameter(const OperatorCase& on, at::IntArrayRef shape, std::string_view name);

// The same with a gradient of another dtype.
Parameter random_parameter(const OperatorCase& on, at::IntArrayRef shape, std::string_view name,
                           at::ScalarType grad_dtype);

// Valid as long as the vector.
std::vector<const Parameter*> pointers_to(const std::vector<Parameter>& parameters);

at::Tensor int_tensor(const OperatorCase& on, const std::vector<std::int32_t>& values);
// `count` ids in [0, bound), some of them equal.
std::vector<std::int32_t> some_ids(std::int64_t count, std::int32_t bound);

// Fills memory with NaN and gives it back, so that an output that is not written wholly is seen.
void poison_free_memory(const OperatorCase& on);

// The values on the CPU in float64.
at::Tensor wide_copy(const at::Tensor& x);

// A float64 copy on the CPU that gradients can be asked of.
at::Tensor reference_leaf(const at::Tensor& x);

void expect_close(const at::Tensor& actual, const at::Tensor& reference, double tolerance,
                  const std::string& what);

}  // namespace packtrain
