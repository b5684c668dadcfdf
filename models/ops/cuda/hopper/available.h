#pragma once

namespace packtrain {

// True when this build has kernels for sm_90a and the current GPU is a Hopper GPU.
bool has_hopper_kernels();

}  // namespace packtrain
