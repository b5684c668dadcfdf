// memory.recompute and memory.offload as policies of layers.
#pragma once

#include "framework/config/config.h"
#include "models/decoder/layer_policies.h"

namespace packtrain {

// An `auto` that memory.fit did not resolve recomputes nothing.
LayerPolicies layer_policies(const MemorySection& memory);

}  // namespace packtrain
