// The options of a LoRA adapter, as PEFT's LoraConfig has them.
#pragma once

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "models/layers/adapter_targets.h"

namespace packtrain {

// A pattern without `*` matches a module whose path ends in it, at a dot; a pattern with `*` (any
// text) matches the whole path. Paths are those of Hugging Face modules
// (model.layers.0.self_attn.q_proj) and of our weights (layers.0.attention.qkv). The experts of a
// layer are two modules (model.layers.0.mlp.experts.gate_up_proj). A pattern without `*` of
// targets, exclude or save matches them only if it has the word experts.
struct LoraOptions {
  std::string name;  // initial values depend on it; may be empty
  std::int64_t rank = 16;
  double alpha = 32;
  bool use_rslora = false;  // scale alpha / sqrt(rank) instead of alpha / rank
  std::vector<std::string> targets = {"all-linear"};
  std::vector<std::string> exclude;
  std::vector<std::int64_t> layers_to_transform;                   // empty: all
  std::vector<std::pair<std::string, std::int64_t>> rank_pattern;  // the first match counts
  std::vector<std::pair<std::string, double>> alpha_pattern;
  double dropout = 0;
  bool use_dora = false;  // with magnitudes of rows (models/ops/linear/dora.h)
  LoraInitialization initialization = LoraInitialization::kDefault;
  std::int64_t num_iterations = 0;  // of LoraInitialization::kPissaNiter
  std::vector<std::string> save;    // modules that are trained whole
};

}  // namespace packtrain
