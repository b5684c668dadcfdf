// Settings of the section precision.
#pragma once

#include <string>
#include <vector>

#include "framework/core/data_type.h"

namespace packtrain {

enum class Precision { kFloat32, kBFloat16 };
constexpr DataType data_type(Precision precision) {
  return precision == Precision::kFloat32 ? DataType::kFloat32 : DataType::kBFloat16;
}

// The numbers that the products of linear layers read. kBFloat16: those of precision.compute.
enum class LinearProducts { kBFloat16, kFp8Tensor, kFp8Block };
// The same for the product that gives a weight's gradient. kFp8: with a scale for each tensor.
enum class WeightGradientProducts { kBFloat16, kFp8, kFp8Block };

struct PrecisionSection {
  Precision compute = Precision::kBFloat16;
  Precision master = Precision::kFloat32;   // dtype of the weights that the optimizer updates
  Precision reduce = Precision::kBFloat16;  // dtype of gradients in reductions between ranks
  bool deterministic = false;               // bit-equal runs, slower kernels
  LinearProducts linear = LinearProducts::kBFloat16;
  WeightGradientProducts weight_gradient = WeightGradientProducts::kBFloat16;
  std::vector<std::string> keep_bf16;  // weights that linear leaves out; `*` matches any characters
};

}  // namespace packtrain
