// The error of operators in a build without CUDA.
#pragma once

namespace packtrain {

// Throws Error(kDevice), which names the operator.
[[noreturn]] void throw_cuda_not_built(const char* operator_name);

}  // namespace packtrain
