#include "training/setup/reference_model.h"

#include <fmt/format.h>

#include <map>
#include <mutex>
#include <string>

#include "framework/config/load.h"
#include "framework/core/error.h"
#include "training/setup/model_source.h"

namespace packtrain {
namespace {

// All that find_model() reads for a model without an adapter.
std::string settings_of_model(const Config& config) {
  std::string text;
  for (const std::string& key : config_keys()) {
    const bool is_read = key.starts_with("model.") || key.starts_with("precision.");
    if (is_read) text += key + "=" + config_value(config, key) + "\n";
  }
  return text;
}

}  // namespace

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

DecoderConfig reference_decoder(const Config& config) {
  static std::mutex mutex;
  static std::map<std::string, DecoderConfig> found;
  const Config own = reference_config(config);
  const std::lock_guard lock(mutex);
  const std::string settings = settings_of_model(own);
  const auto known = found.find(settings);
  if (known != found.end()) return known->second;
  return found.emplace(settings, find_model(own).decoder).first->second;
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
