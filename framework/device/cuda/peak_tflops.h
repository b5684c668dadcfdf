// Peak throughput of GPUs, for the utilization of each step.
#pragma once

#include <string_view>

namespace packtrain {

// Dense bfloat16 peak in TFLOP/s of the GPU with CUDA's name `name`. 0 when it is not in the table.
double peak_tflops_of(std::string_view name);

}  // namespace packtrain
