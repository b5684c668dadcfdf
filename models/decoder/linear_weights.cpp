#include "models/decoder/linear_weights.h"

#include <algorithm>

#include "framework/core/error.h"
#include "framework/core/wildcard.h"
#include "models/decoder/parameters.h"
#include "models/ops/fp8/fp8_linear.h"

namespace packtrain {
namespace {

void check_patterns(const std::vector<std::string>& patterns,
                    const std::vector<std::string>& names) {
  for (const std::string& pattern : patterns) {
    const bool matches = std::ranges::any_of(
        names, [&](const std::string& name) { return matches_wildcard(pattern, name); });
    if (matches) continue;
    throw Error(
        ErrorCategory::kConfig,
        "precision.keep_bf16: pattern '" + pattern + "' matches no weight of a linear layer",
        "names look like layers.0.attention.qkv.weight, layers.0.mlp.down.weight; "
        "* matches any characters");
  }
}

void add_experts(LinearWeights& weights, const DecoderConfig& config, const ParameterSpec& spec) {
  const LinearPrecision& linear = config.linear;
  const std::int64_t out = spec.shape[1];
  const std::int64_t in = spec.shape[2];
  if (linear.takes_experts(spec.name, out, in) && config.lora_of(spec.name) == nullptr) {
    weights.experts_in_fp8.push_back(spec.name);
  } else if (linear.keeps(spec.name)) {
    weights.kept.push_back(spec.name);
  } else if (!fp8_takes(out, in)) {
    weights.odd.push_back(spec.name);
  } else {
    weights.experts.push_back(spec.name);
  }
}

}  // namespace

LinearWeights linear_weights(const DecoderConfig& config) {
  LinearWeights weights;
  std::vector<std::string> names;
  for (std::int64_t layer = 0; layer < config.num_layers; ++layer) {
    for (const ParameterSpec& spec : layer_parameters(config, layer)) {
      if (!spec.decodable) continue;
      if (spec.shape.size() != 2) {
        add_experts(weights, config, spec);
        names.push_back(spec.name);
        continue;
      }
      names.push_back(spec.name);
      if (config.fp8_of(spec.name, spec.shape[0], spec.shape[1]) != Fp8Products::kNone) {
        weights.in_fp8.push_back(spec.name);
      } else if (config.linear.keeps(spec.name)) {
        weights.kept.push_back(spec.name);
      } else if (config.divides_weight(spec.name)) {
        weights.divided.push_back(spec.name);
      } else if (!fp8_takes(spec.shape[0], spec.shape[1])) {
        weights.odd.push_back(spec.name);
      }
    }
  }
  check_patterns(config.linear.keep, names);
  return weights;
}

}  // namespace packtrain
