// Normal random numbers by position: element i is a function of the stream and of i alone, so any
// range of a parameter is made anywhere. Box-Muller in float64 on SplitMix64 bits
// (framework/support/random.h), rounded to float32. The GPU's logarithm and cosine differ from the
// host's in their last bit: about one float32 in ten million is the other one of two neighbours.
// Bytes: 4 written an element; on a GPU the float64 arithmetic takes longer than that.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>

#include "framework/support/random.h"

namespace packtrain {

// Fills `values` (contiguous float32 [n], CPU or CUDA) with deviation * normal(begin + i). On the
// CPU it uses all cores.
void random_normal(const at::Tensor& values, const CounterRandom& random, std::int64_t begin,
                   double deviation);

}  // namespace packtrain
