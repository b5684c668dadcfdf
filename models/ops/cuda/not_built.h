// What operators say where CUDA is not built.
#pragma once

namespace packtrain {

// Throws Error(kDevice) naming the operator.
[[noreturn]] void throw_cuda_not_built(const char* operator_name);

}  // namespace packtrain
