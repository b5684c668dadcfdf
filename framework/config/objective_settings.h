// Functions that say what an objective needs.
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

// True when the loss has an estimate of the divergence from the reference over a whole step.
inline bool has_divergence(const ObjectiveSection& objective) {
  return objective.kind == ObjectiveKind::kKto;
}

// True when examples of a group may share rows. Padded examples share nothing.
inline bool may_share_prefixes(const BatchSection& batch) {
  return batch.share_prefixes && !traits_of(batch.strategy).pads_to_longest;
}

// True when tokens that the examples of a group begin with are computed once. A group of `kto` is
// one example. `has_groups`: of data.train. A run of next tokens has them where a store holds
// turns.
inline bool shares_prefixes(const Config& config, bool has_groups) {
  return may_share_prefixes(config.batch) && has_groups &&
         config.objective.kind != ObjectiveKind::kKto;
}

// The same where only the objective is known.
inline bool shares_prefixes(const Config& config) {
  return shares_prefixes(config, trains_groups(config.objective));
}

// Where these log-probabilities come from. Nothing: the loss has none.
std::optional<ReferenceSource> reference_source(const Config& config);

}  // namespace packtrain
