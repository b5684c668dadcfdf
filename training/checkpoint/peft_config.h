// Reads and writes adapter_config.json of PEFT.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "models/adapters/lora_options.h"
#include "models/layers/decoder_config.h"

namespace packtrain {

inline constexpr const char* kPeftConfigName = "adapter_config.json";

struct PeftConfig {
  // Names and patterns as in the file; some may match nothing in the model. `targets` is empty when
  // has_target_list is false.
  LoraOptions options;
  // False: target_modules is a regular expression or all-linear, so that the tensors of the file
  // say which modules it means.
  bool has_target_list = true;
  // Weights of experts, by the ends of their names.
  std::vector<std::string> target_parameters;
  bool ensure_weight_tying = false;  // a saved embedding is the head too
};

// `name` is that of the file, for errors. Throws Error(kConfig) when the text is no JSON object, a
// value is wrong, or an option is set that is not computed. The error has the key and its value.
PeftConfig parse_peft_config(const std::string& text, const std::string& name);

// The text that PEFT loads for config.adapter, with the scales that `options` gave it.
// `base_model` is written as base_model_name_or_path.
std::string peft_config_text(const DecoderConfig& config, const LoraOptions& options,
                             const std::string& base_model);

}  // namespace packtrain
