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

// Of the four linear layers, bfloat16, random operands on the current CUDA device: the output, the
// gradient of the input and that of the weight.
std::vector<Product> layer_products(const LayerShape& shape);

}  // namespace packtrain
