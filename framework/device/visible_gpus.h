// Which GPUs this process sees, each by a name that other processes of the host have for it too.
#pragma once

#include <string>
#include <vector>

namespace packtrain {

// PCI bus ids ("0000:1B:00.0"), in CUDA's order: the place is the index of make_cuda_device().
// Empty without a driver or when built without CUDA. Makes no context on any GPU; never throws.
std::vector<std::string> visible_gpus();

}  // namespace packtrain
