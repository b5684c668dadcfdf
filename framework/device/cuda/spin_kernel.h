// A kernel for framework/device/spin.cpp. The stub is never called, because without CUDA there is
// no stream.
#pragma once

namespace packtrain {

void launch_spin_kernel(void* stream);  // cudaStream_t

}  // namespace packtrain
