// For framework/device/spin.cpp. A stub where there is no CUDA, and so no stream to give it to.
#pragma once

namespace packtrain {

void launch_spin_kernel(void* stream);  // cudaStream_t

}  // namespace packtrain
