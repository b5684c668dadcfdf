// The modules of a model as transformers names them, with the place of each in our parameters.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "models/layers/decoder_config.h"

namespace packtrain {

// A module that has a weight, or the weights of a layer's experts as one parameter.
struct ModelModule {
  std::string path;       // Hugging Face
  std::string parameter;  // that holds its rows
  std::vector<std::int64_t> shape;
  std::int64_t begin = 0;
  std::int64_t num_rows = 0;  // of experts: of each
  std::int64_t layer = -1;    // -1: embedding, final norm, head
  bool of_experts = false;
  bool has_own_name = true;  // false: a module of a layer has the last name of own_path()
  bool can_adapt = true;     // false: of experts that are no parameter [experts, outputs, inputs]

  // The parameter's name without ".weight".
  std::string own_path() const;
};

// In the order of their rows.
std::vector<ModelModule> find_modules(const DecoderConfig& config);

}  // namespace packtrain
