// Dropout with masks that do not depend on the packing:
//    y[t, c] = x[t, c] / (1 - p) if the element is kept, else 0
// Whether it is kept depends on row_seeds[t], `key` and c alone. x and y [T, K] are float32 or
// bfloat16, row_seeds int32 [T]. The gradient is the same function of the gradient. The probability
// is rounded to a multiple of 2^-16. The same bits on CPU and GPU. Elements that must move: 2 T K.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>

namespace packtrain {

struct DropoutMask {
  at::Tensor row_seeds;   // int32 [T]
  std::uint64_t key = 0;  // of the place in the model
  double probability = 0;
};

at::Tensor dropout(const at::Tensor& x, const DropoutMask& mask);

// On CUDA tensors. The function above calls it; no_cuda.cpp has it in a build without CUDA.
at::Tensor dropout_cuda(const at::Tensor& x, const DropoutMask& mask);

}  // namespace packtrain
