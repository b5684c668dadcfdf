// Import and export of PEFT folders of LoRA: adapter_config.json and adapter_model.safetensors.
#pragma once

#include <span>
#include <string>

#include "models/adapters/lora_options.h"
#include "models/layers/decoder_config.h"
#include "parallel/sharding/shard_view.h"
#include "training/checkpoint/hugging_face.h"

namespace packtrain {

inline constexpr const char* kPeftWeightsName = "adapter_model.safetensors";

// True when it has adapter_config.json.
bool is_peft_folder(const std::string& folder);

// The options with which find_lora_targets() finds the folder's adapter in the model `base`, which
// has no adapter. The names, shapes and dtypes of all tensors are checked, so that
// read_peft_weights() finds what it needs.
// Throws Error(kConfig) when a file is missing, adapter_config.json has an option that is not
// computed (peft_config.h), or it names no module of the model. Throws Error(kCheckpoint) with the
// tensor's name when it is missing, has another shape, or belongs to no module. A damaged file of
// weights is an Error(kCheckpoint) too.
LoraOptions read_peft_options(const std::string& folder, const DecoderConfig& base);

// Fills `shards[i].weight` of the parameters that config.adapter trains; other shards stay as they
// are. Only the owned ranges are read. All tensors are checked before any is copied. Throws as
// read_peft_options(), and Error(kCheckpoint) when a weight is not finite.
void read_peft_weights(const std::string& folder, const DecoderConfig& config,
                       std::span<const ShardView> shards);

struct PeftExport {
  std::string base_model;  // written as base_model_name_or_path
  bool bfloat16 = false;   // false: float32
};

// Writes a folder that PEFT loads. `source` gives the parameters that config.adapter trains.
// `options` are those that config.adapter was found with. The folder is written as `folder`.tmp,
// synced, and renamed. Throws Error(kCheckpoint) when `folder` exists or a write fails.
void write_peft_folder(const std::string& folder, const DecoderConfig& config,
                       const LoraOptions& options, const ParameterSource& source,
                       const PeftExport& how);

}  // namespace packtrain
