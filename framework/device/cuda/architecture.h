#pragma once

namespace packtrain {

// Throws Error(kDevice) unless this build has kernels for the current device, whose compute
// capability is major.minor.
void check_architecture(const char* gpu_name, int major, int minor);

}  // namespace packtrain
