// Normal random numbers by position. Element i depends only on the stream and on i, so that any
// rank can fill any range of a parameter. Box-Muller in float64 on SplitMix64 bits
// (framework/core/random.h), rounded to float32. Logarithm and cosine of GPU and host differ in
// the last bit. About one float32 in ten million is therefore the neighbouring value. Bytes: 4
// written an element; on a GPU the float64 arithmetic takes longer.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>

#include "framework/core/random.h"

namespace packtrain {

// Fills `values` (contiguous float32 [n], CPU or CUDA) with deviation * normal(begin + i). Uses all
// cores on the CPU.
void random_normal(const at::Tensor& values, const CounterRandom& random, std::int64_t begin,
                   double deviation);

// On CUDA tensors. The functions above call these; no_cuda.cpp has them in a build without CUDA.
// random_normal() on a GPU. Throws Error(kDevice) in a build without CUDA.
void random_normal_cuda(const at::Tensor& values, const CounterRandom& random, std::int64_t begin,
                        double deviation);

}  // namespace packtrain
