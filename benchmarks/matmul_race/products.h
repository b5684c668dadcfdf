// The matrix products of a decoder layer, forward and backward.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <string>
#include <vector>

#include "models/ops/matmul/cublaslt.h"

namespace packtrain {

struct LayerShape {
  std::int64_t tokens = 8192;
  std::int64_t hidden = 4096;
  std::int64_t qkv = 6144;
  std::int64_t mlp = 14336;
};

struct Product {
  std::string name;
  GemmCall call;
  std::vector<at::Tensor> operands;  // keep what the call points to
};

// The products of the four linear layers: output, gradient of the input, gradient of the weight.
// bfloat16, with random operands on the current CUDA device.
std::vector<Product> layer_products(const LayerShape& shape);

}  // namespace packtrain
