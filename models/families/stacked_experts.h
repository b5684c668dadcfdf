// The weights of a layer's experts as parameters of transformers' modules.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "models/layers/decoder_config.h"

namespace packtrain {

// Rows [begin, begin + num_rows) of each expert's matrix here. Row begin + i is row hf_begin + i *
// hf_stride of the expert's matrix in transformers.
struct ExpertRows {
  std::int64_t begin = 0;
  std::int64_t num_rows = 0;
  std::int64_t hf_begin = 0;
  std::int64_t hf_stride = 1;
};

// One weight [experts, outputs, inputs] that is one parameter in transformers, which may transpose
// its matrices.
struct StackedExperts {
  std::string path;  // model.layers.0.mlp.experts.gate_up_proj
  std::int64_t num_experts = 0;
  std::int64_t num_outputs = 0;
  std::int64_t num_inputs = 0;
  std::vector<ExpertRows> rows;  // in the order of our rows; the same for all experts
};

// True for the weights of experts, such as layers.0.mlp.experts.gate_up.weight.
bool is_weight_of_experts(const std::string& parameter);

// By the name of our parameter. Empty for a family whose module has no such parameters (dbrx has
// matrices [experts * width, hidden]), for Llama 4 (is_in_module()) and for models without experts.
std::map<std::string, StackedExperts> stacked_experts(const DecoderConfig& config);

}  // namespace packtrain
