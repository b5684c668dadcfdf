// The ways to compute each product of a linear layer with its low-rank update.
#pragma once

#include <ATen/core/Tensor.h>

#include <functional>
#include <string>
#include <vector>

#include "benchmarks/lora/layer.h"

namespace packtrain {

struct Variant {
  std::string name;
  // Computes the product with the weight of this number into `out` or a tensor of its own, which it
  // returns.
  std::function<at::Tensor(std::size_t)> run;
  bool has_update = false;  // its result is that of `reference`
};

struct ProductCase {
  std::string name;  // "forward"
  double flops = 0;  // of the frozen product; 0: limited by `bytes`
  double bytes = 0;  // of the operand that is as large as x or y
  std::vector<Variant> variants;
  std::function<at::Tensor()> reference;  // float32, with weight 0
};

// `linear` must outlive them.
std::vector<ProductCase> product_cases(const LoraLinear& linear);

}  // namespace packtrain
