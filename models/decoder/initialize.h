// Initial weights from counter-based random numbers. The value of an element depends on the seed,
// the name of the parameter and the element's index. It is the same on any number of ranks.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>

#include "models/block/block.h"

namespace packtrain {

// Fills `values` with elements [begin, begin + n) of the parameter in row-major order. `values` is
// contiguous float32 [n], on the CPU or on a GPU, where it uses the current stream.
void initialize(const ParameterSpec& parameter, std::uint64_t seed, std::int64_t begin,
                const at::Tensor& values);

}  // namespace packtrain
