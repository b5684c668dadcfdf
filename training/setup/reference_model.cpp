#include "training/setup/reference_model.h"

#include <fmt/format.h>

#include "framework/core/error.h"

namespace packtrain {

Config reference_config(const Config& config) {
  Config own = config;
  own.model.path = config.objective.reference_path;
  own.model.config.clear();
  if (own.model.path != config.model.path) own.model.prefix.clear();
  own.model.frozen = {"*"};
  own.adapter = {};
  own.adapters.clear();
  own.objective = {};  // needs no reference itself
  own.memory.offload.reset();
  return own;
}

void check_reference_vocabulary(const Config& own, const DecoderConfig& reference,
                                const DecoderConfig& policy) {
  if (reference.vocab_size == policy.vocab_size) return;
  throw Error(ErrorCategory::kConfig,
              fmt::format("objective.reference_path: {} has a vocabulary of {} tokens, the trained "
                          "model one of {}",
                          own.model.path, reference.vocab_size, policy.vocab_size),
              "Both need the same tokens: name a reference of the same family.");
}

}  // namespace packtrain
