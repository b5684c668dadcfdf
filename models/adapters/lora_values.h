// Initial values of an adapter's parameters.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <string>

#include "models/block/block.h"
#include "models/layers/adapter_targets.h"

namespace packtrain {

// Fills `values`, contiguous float32 [n], with elements [begin, begin + n) of the parameter
// (NAME.lora_A or NAME.MODULE.lora_B) in row-major order. Magnitudes, which depend on the model's
// weights, become zero. The values of a module depend on the
// seed, its name, the name of the adapter, and its own elements. They are the same on any number of
// ranks, with any other modules, and with other adapters. As in PEFT, A of an embedding is zero and
// its B normal.
void initialize_adapter(const AdapterTargets& targets, const ParameterSpec& parameter,
                        std::uint64_t seed, std::int64_t begin, const at::Tensor& values);

}  // namespace packtrain
