// NVTX ranges of the calling thread. They do nothing in a build without CUDA.
#pragma once

namespace packtrain {

void push_nvtx_range(const char* name);
void pop_nvtx_range();

}  // namespace packtrain
