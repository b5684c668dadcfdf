// Maps the tensors of PEFT's adapter files to the parameters of an adapter.
#pragma once

#include <string>
#include <vector>

#include "models/families/weight_map.h"
#include "models/layers/adapter_targets.h"
#include "models/layers/decoder_config.h"

namespace packtrain {

// All names in PEFT's files begin with it; the path of a Hugging Face module follows.
inline constexpr const char* kPeftPrefix = "base_model.model.";

// Names of an adapter's parameters for a weight, such as layers.0.attention.qkv.weight:
// layers.0.attention.qkv.lora_A, layers.0.attention.qkv.q_proj.lora_B and, with DoRA,
// layers.0.attention.qkv.q_proj.lora_magnitude_vector.
// The name of the adapter follows, if it has one: layers.0.attention.qkv.lora_A.mine.
std::string lora_a_name(const std::string& weight, const std::string& adapter = {});
std::string lora_b_name(const std::string& weight, const LoraModule& module,
                        const std::string& adapter = {});
std::string magnitude_name(const std::string& weight, const LoraModule& module,
                           const std::string& adapter = {});
bool is_magnitude_name(const std::string& parameter);

// The name that checkpoints of PiSSA have for initial values of an adapter's parameter.
std::string initial_name(const std::string& parameter);
bool is_initial_name(const std::string& name);

// The pieces of all parameters that config.adapter trains. lora_A stacks the modules' A
// [rank, inputs]. The rows of lora_B and of magnitudes are in the order of our weight's rows, which
// may differ from those of the module (falcon). Those of experts are [experts, rank, inputs] and
// [experts, outputs, rank]. Modules that are trained whole have the family's pieces. Throws
// Error(kInternal) when the family stores a target in another way than by rows.
std::vector<WeightPiece> adapter_weights(const DecoderConfig& config);

}  // namespace packtrain
