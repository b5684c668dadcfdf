// The GPUs that this process sees, with names that are the same in all processes of the host.
#pragma once

#include <string>
#include <vector>

namespace packtrain {

// PCI bus ids ("0000:1B:00.0") in CUDA's order: the position is the index for make_cuda_device().
// Empty without a driver or when built without CUDA. Creates no context on a GPU. Never throws.
std::vector<std::string> visible_gpus();

}  // namespace packtrain
