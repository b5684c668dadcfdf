// The four linear layers of a decoder layer with their low-rank updates, on the current GPU.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <string>
#include <vector>

#include "models/block/block.h"
#include "models/ops/linear/lora_module.h"

namespace packtrain {

struct AdaptedLayerShape {
  std::int64_t tokens = 8192;
  std::int64_t hidden = 4096;
  std::int64_t kv = 1024;  // columns of keys, and of values
  std::int64_t mlp = 14336;
  std::int64_t rank = 16;
};

// bfloat16. Frozen weights are several, so that calls one after another do not find them in L2.
struct LoraLinear {
  std::string name;
  LoraModules modules;
  std::vector<Parameter> weights;  // [N, K]
  Parameter a;                     // [R, K]
  std::vector<Parameter> b;        // of each module
  at::Tensor x;                    // [T, K]
  at::Tensor s;                    // [T, R]
  at::Tensor residual;             // [T, N]; undefined: none is added
  at::Tensor grad_output;          // [T, N]
  at::Tensor grad_low_rank;        // [T, R]

  std::vector<const Parameter*> b_of() const;
  double flops() const;  // of one frozen product
};

std::vector<LoraLinear> lora_layer(const AdaptedLayerShape& shape);

}  // namespace packtrain
