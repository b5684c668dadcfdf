#include "models/decoder/decoder.h"

#include <fmt/format.h>

#include <algorithm>
#include <string>
#include <utility>

#include "framework/core/error.h"
#include "framework/core/wildcard.h"
#include "models/block/encoded_layout.h"
#include "models/decoder/decoder_layer.h"
#include "models/decoder/embedding_block.h"
#include "models/decoder/fused_rows.h"
#include "models/decoder/head_block.h"
#include "models/decoder/parameters.h"
#include "models/ops/rotary/rotary_frequencies.h"

namespace packtrain {
namespace {

// Applies the options to the parameters of one block after another and records which patterns
// matched.
class ParameterOptions {
 public:
  ParameterOptions(const DecoderConfig& config, const DecoderOptions& options)
      : config_(config), options_(options), used_(options.frozen.size(), false) {}

  std::vector<ParameterSpec> apply(std::vector<ParameterSpec> parameters, bool in_layer) {
    for (ParameterSpec& parameter : parameters) {
      parameter.encoding = parameter.keep_float32 ? ParameterEncoding{} : options_.encoding;
      const auto parts = options_.parts.find(parameter.name);
      if (parts != options_.parts.end()) parameter.parts = parts->second;
      if (options_.decay_norms_and_biases) parameter.group = OptimizerGroup::kDecay;
      for (std::size_t i = 0; i < used_.size(); ++i) {
        if (matches_wildcard(options_.frozen[i], parameter.name)) {
          parameter.trainable = false;
          used_[i] = true;
        }
      }
      parameter.own_master = options_.own_masters && parameter.trainable;
      if (is_encoded(parameter)) {
        parameter.encoding = *options_.frozen_weights;
        has_encoded_ = true;
      }
      if (in_layer) parameter.fused_rows = fused_rows(config_, parameter);
      if (options_.choose_optimizer) options_.choose_optimizer(parameter, in_layer);
    }
    return parameters;
  }

  void check_all_used() const {
    for (std::size_t i = 0; i < used_.size(); ++i) {
      if (!used_[i]) {
        throw Error(ErrorCategory::kConfig,
                    "model.frozen: pattern '" + options_.frozen[i] + "' matches no parameter",
                    "names look like embed.weight, layers.0.attention.qkv.weight, "
                    "final_norm.weight, head.weight; * matches any characters");
      }
    }
    if (options_.frozen_weights && !has_encoded_) {
      const bool is_nf4 = options_.frozen_weights->format == ParameterEncoding::Format::kNf4;
      throw Error(ErrorCategory::kConfig,
                  fmt::format("model.base: {} is how frozen weights are stored, and no weight of a "
                              "projection is frozen that has whole blocks of {} elements",
                              is_nf4 ? "nf4" : "fp8", is_nf4 ? 64 : 16),
                  "Freeze projections (an adapter does, and model.frozen: [\"layers.*\"]), or "
                  "remove model.base.");
    }
  }

 private:
  bool is_encoded(const ParameterSpec& parameter) const {
    return options_.frozen_weights && parameter.decodable && !parameter.trainable &&
           !options_.not_encoded.contains(parameter.name) &&
           can_encode(parameter, options_.frozen_weights->format);
  }

  const DecoderConfig& config_;
  const DecoderOptions& options_;
  std::vector<bool> used_;
  bool has_encoded_ = false;
};

std::int64_t total_numel(const std::vector<ParameterSpec>& parameters) {
  std::int64_t total = 0;
  for (const ParameterSpec& parameter : parameters) total += parameter.numel();
  return total;
}

void check_recompute(const LayerPolicies& policies, std::int64_t num_layers) {
  if (policies.num_first <= num_layers) return;
  throw Error(ErrorCategory::kConfig,
              "memory.recompute: names the first " + std::to_string(policies.num_first) +
                  " layers, the model has " + std::to_string(num_layers),
              "Name at most as many layers as the model has.");
}

// Layers with the same rotary positions share their frequencies.
class LayerFrequencies {
 public:
  explicit LayerFrequencies(const DecoderConfig& config) : config_(config) {}

  std::shared_ptr<const RotaryFrequencies> of(std::int64_t layer) {
    const RotaryConfig rotary = config_.rotary_of(layer);
    const std::int64_t dim = config_.rotary_dim_of(layer);
    for (const Made& made : made_) {
      if (made.rotary == rotary && made.dim == dim) return made.frequencies;
    }
    made_.push_back({rotary, dim, std::make_shared<const RotaryFrequencies>(rotary, dim)});
    return made_.back().frequencies;
  }

 private:
  struct Made {
    RotaryConfig rotary;
    std::int64_t dim;
    std::shared_ptr<const RotaryFrequencies> frequencies;
  };

  const DecoderConfig& config_;
  std::vector<Made> made_;
};

}  // namespace

std::vector<std::unique_ptr<Block>> make_decoder(const DecoderConfig& config,
                                                 const DecoderOptions& options) {
  check_recompute(options.recompute, config.num_layers);
  ParameterOptions choose(config, options);
  LayerFrequencies frequencies(config);
  std::vector<std::unique_ptr<Block>> blocks;
  blocks.push_back(
      std::make_unique<EmbeddingBlock>(choose.apply(embedding_parameters(config), false), config));
  for (std::int64_t layer = 0; layer < config.num_layers; ++layer) {
    blocks.push_back(std::make_unique<DecoderLayer>(
        config, layer, options.recompute.by_rows(layer),
        choose.apply(layer_parameters(config, layer), true), frequencies.of(layer)));
  }
  blocks.push_back(std::make_unique<HeadBlock>(choose.apply(head_parameters(config), false), config,
                                               options.objective));
  choose.check_all_used();
  return blocks;
}

std::int64_t num_parameters(const DecoderConfig& config) {
  return total_numel(all_parameters(config));
}

std::int64_t num_trained_parameters(const DecoderConfig& config) {
  std::vector<ParameterSpec> parameters = all_parameters(config);
  std::erase_if(parameters, [](const ParameterSpec& spec) { return !spec.trainable; });
  return total_numel(parameters);
}

}  // namespace packtrain
