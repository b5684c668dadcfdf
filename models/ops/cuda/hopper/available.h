#pragma once

namespace packtrain {

// Whether this build has kernels of Hopper's own instructions (sm_90a) and the current GPU runs
// them.
bool has_hopper_kernels();

}  // namespace packtrain
