// Initial weights from counter-based random numbers: an element's value depends on the seed, the
// parameter's name and its own index, so it is the same at any number of ranks.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>

#include "models/block.h"

namespace packtrain {

// Fills `values` (contiguous float32 [n], on the CPU or, on the current stream, a GPU) with
// elements [begin, begin + n) of the parameter in row-major order.
void initialize(const ParameterSpec& parameter, std::uint64_t seed, std::int64_t begin,
                const at::Tensor& values);

}  // namespace packtrain
