// Builds a decoder from a config: embedding, layers, and head with loss, as a list of blocks. This
// is the entry point of `models/`.
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "models/block/block.h"
#include "models/decoder/layer_policies.h"
#include "models/layers/decoder_config.h"
#include "models/objectives/next_token.h"

namespace packtrain {

struct DecoderOptions {
  std::vector<std::string> frozen = {};  // names not trained; `*` matches any characters
  bool decay_norms_and_biases = false;
  // Of all parameters but those that stay float32 (ParameterSpec::keep_float32), and these:
  ParameterEncoding encoding = {};
  // ParameterSpec::own_master of trainable parameters.
  bool own_masters = false;
  // Frozen weights that operators decode have this one. Those with a tensor of partial blocks keep
  // `encoding`, and so do those that `not_encoded` names.
  std::optional<ParameterEncoding> frozen_weights = std::nullopt;
  std::set<std::string> not_encoded = {};
  // By parameter (families/parameter_parts.h).
  std::map<std::string, std::vector<ParameterPart>> parts = {};
  // Sets `optimizer` and `block_state` of a parameter. `in_layer`: it is not of the embedding or
  // the head. May be empty.
  std::function<void(ParameterSpec& parameter, bool in_layer)> choose_optimizer = {};
  LayerPolicies recompute = RecomputePolicy::none();
  std::shared_ptr<const Objective> objective = std::make_shared<NextToken>();
};

// blocks[0] embeds, blocks[1 .. num_layers] are the layers, the last is final norm + head + loss.
// Throws Error(kConfig) when a pattern in `frozen` matches no parameter. Also throws when
// `recompute` names more layers than there are, and when `frozen_weights` is the encoding of none.
std::vector<std::unique_ptr<Block>> make_decoder(const DecoderConfig& config,
                                                 const DecoderOptions& options);

// Elements of all parameters, an adapter's included. A tied head counts once.
std::int64_t num_parameters(const DecoderConfig& config);
// Those of them that are trained: all, or an adapter and what is trained with it.
std::int64_t num_trained_parameters(const DecoderConfig& config);

}  // namespace packtrain
