// The values of memory.offload as text.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "framework/config/config.h"

namespace packtrain {

// Without a choice nothing is offloaded.
bool offloads_activations(std::optional<Offload> offload);
bool offloads_optimizer(std::optional<Offload> offload);
Offload make_offload(bool activations, bool optimizer);

// "none", "activations", "optimizer" or "[activations, optimizer]", as YAML.
std::string offload_text(Offload offload);
// Nothing for another text.
std::optional<Offload> parse_offload(std::string_view text);

}  // namespace packtrain
