// What a GPU could do at best, for the utilisation printed beside each step.
#pragma once

#include <string_view>

namespace packtrain {

// Dense bfloat16 peak in TFLOP/s of the GPU that CUDA calls `name`; 0 when it is not in the table.
double peak_tflops_of(std::string_view name);

}  // namespace packtrain
