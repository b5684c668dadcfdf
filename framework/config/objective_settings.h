// What an objective needs, by the configuration.
#pragma once

#include <optional>

#include "framework/config/config.h"

namespace packtrain {

// True for objectives of groups of examples: all but next_token.
inline bool trains_groups(const ObjectiveSection& objective) {
  return objective.kind != ObjectiveKind::kNextToken;
}

// True when the loss has log-probabilities of a reference model.
bool has_reference(const ObjectiveSection& objective);

// Where these log-probabilities come from. Nothing: the loss has none.
std::optional<ReferenceSource> reference_source(const Config& config);

}  // namespace packtrain
