// Activations by their names in config.json.
#pragma once

#include <string>

#include "models/ops/activation/activation_kind.h"

namespace packtrain {

class ConfigReader;

// Reads silu (swish), gelu, or gelu_pytorch_tanh (gelu_new and gelu_fast are the same formula).
// Reads relu2 too where it is the fallback: the GEMMs of experts do not compute it. Refuses all
// others by name.
ActivationKind read_activation(ConfigReader& reader, const std::string& key,
                               const std::string& fallback);
// Name in transformers. kClampedSwish has none.
std::string activation_name(ActivationKind kind);

}  // namespace packtrain
