#include "tests/models/estimates/layer_tables.h"

#include <string>
#include <utility>

namespace packtrain::tables {
namespace {

using Kind = Initialization::Kind;

void add_norm(std::vector<ParameterSpec>& list, const std::string& name, std::int64_t size,
              const NormConfig& norm) {
  // The effective weight starts at 1. A weight that is added to the offset 1 therefore starts at 0.
  const Kind kind = norm.weight_offset == 0 ? Kind::kOnes : Kind::kZeros;
  if (norm.has_weight) list.push_back({name + ".weight", {size}, {kind, 0.0}, false, true});
  if (norm.has_bias) list.push_back({name + ".bias", {size}, {Kind::kZeros, 0.0}, false, true});
}

// QkNormKind has the shapes.
void add_qk_norms(std::vector<ParameterSpec>& list, const std::string& prefix,
                  const DecoderConfig& config) {
  const Kind kind = config.norm.weight_offset == 0 ? Kind::kOnes : Kind::kZeros;
  const auto add = [&](const char* name, std::int64_t num_heads) {
    std::vector<std::int64_t> shape = {config.head_dim};
    if (config.qk_norm == QkNormKind::kFull) shape = {num_heads * config.head_dim};
    if (config.qk_norm == QkNormKind::kHeadLayer) shape = {num_heads, config.head_dim};
    list.push_back({prefix + name, shape, {kind, 0.0}, /*decay=*/false, true});
  };
  if (config.qk_norm == QkNormKind::kNone) return;
  add("attention.query_norm.weight", config.num_heads);
  add("attention.key_norm.weight", config.num_kv_heads);
}

void add_linear(std::vector<ParameterSpec>& list, const std::string& name, std::int64_t rows,
                std::int64_t columns, double standard_deviation, bool bias) {
  list.push_back(
      {name + ".weight", {rows, columns}, {Kind::kNormal, standard_deviation}, true, true});
  if (bias) {
    list.push_back({name + ".bias", {rows}, {Kind::kZeros, 0.0}, /*decay=*/false, true});
  }
}

// One matrix for each expert, and one row of biases.
void add_experts(std::vector<ParameterSpec>& list, const std::string& name,
                 std::vector<std::int64_t> shape, double standard_deviation, bool bias) {
  const std::vector<std::int64_t> bias_shape = {shape[0], shape[1]};
  list.push_back(
      {name + ".weight", std::move(shape), {Kind::kNormal, standard_deviation}, true, true});
  if (bias) list.push_back({name + ".bias", bias_shape, {Kind::kZeros, 0.0}, false, true});
}

void add_mlp(std::vector<ParameterSpec>& list, const std::string& name, std::int64_t inner,
             const DecoderConfig& config, bool bias) {
  const bool gated = config.activation.gated;
  const double deviation = config.initializer_range;
  add_linear(list, name + (gated ? ".gate_up" : ".up"), gated ? 2 * inner : inner,
             config.hidden_size, deviation, bias);
  add_linear(list, name + ".down", config.hidden_size, inner, deviation, bias);
}

void add_mixture(std::vector<ParameterSpec>& list, const std::string& name,
                 const DecoderConfig& config) {
  const ExpertsConfig& experts = config.experts;
  const std::int64_t inner = experts.intermediate_size;
  const std::int64_t up = config.activation.gated ? 2 * inner : inner;
  const double deviation = config.initializer_range;
  add_linear(list, name + ".router", experts.num_experts, config.hidden_size, deviation,
             experts.router_bias);
  add_experts(list, name + ".experts.gate_up", {experts.num_experts, up, config.hidden_size},
              deviation, experts.bias);
  add_experts(list, name + ".experts.down", {experts.num_experts, config.hidden_size, inner},
              deviation, experts.bias);
  if (experts.shared_intermediate_size == 0) return;
  add_mlp(list, name + ".shared", experts.shared_intermediate_size, config, false);
  if (experts.shared_gate) {
    add_linear(list, name + ".shared_gate", 1, config.hidden_size, deviation, false);
  }
}

}  // namespace

std::vector<ParameterSpec> embedding_parameters(const DecoderConfig& config) {
  std::vector<ParameterSpec> list;
  add_linear(list, "embed", config.vocab_size, config.hidden_size, config.initializer_range, false);
  return list;
}

std::vector<ParameterSpec> layer_parameters(const DecoderConfig& config, std::int64_t layer) {
  const std::string prefix = "layers." + std::to_string(layer) + ".";
  const std::int64_t hidden = config.hidden_size;
  const std::int64_t q = config.num_heads * config.head_dim;
  const std::int64_t kv = config.num_kv_heads * config.head_dim;
  const double deviation = config.initializer_range;
  std::vector<ParameterSpec> list;
  if (config.norm_before) add_norm(list, prefix + "attention_norm", hidden, config.norm);
  add_linear(list, prefix + "attention.qkv", q + 2 * kv, hidden, deviation, config.qkv_bias);
  add_qk_norms(list, prefix, config);
  if (config.attention_sinks) {
    list.push_back({prefix + "attention.sinks",
                    {config.num_heads},
                    {Kind::kNormal, deviation},
                    /*decay=*/false,
                    true});
  }
  add_linear(list, prefix + "attention.output", hidden, q, deviation, config.attention_output_bias);
  if (config.norm_after) add_norm(list, prefix + "attention_post_norm", hidden, config.norm);
  if (config.norm_before && !config.has_shared_norm()) {
    add_norm(list, prefix + "mlp_norm", hidden, config.norm);
  }
  if (config.layer(layer).experts) {
    add_mixture(list, prefix + "mlp", config);
  } else {
    add_mlp(list, prefix + "mlp", config.intermediate_size, config, config.mlp_bias);
  }
  if (config.norm_after) add_norm(list, prefix + "mlp_post_norm", hidden, config.norm);
  return list;
}

std::vector<ParameterSpec> head_parameters(const DecoderConfig& config) {
  std::vector<ParameterSpec> list;
  add_norm(list, "final_norm", config.hidden_size, config.norm);
  add_linear(list, config.tied_embeddings ? "embed" : "head", config.vocab_size, config.hidden_size,
             config.initializer_range, false);
  if (config.head_bias) {
    list.push_back({"head.bias", {config.vocab_size}, {Kind::kZeros, 0.0}, false, true});
  }
  return list;
}

static std::int64_t matmul_numel(const std::vector<ParameterSpec>& parameters,
                                 const ExpertsConfig& experts) {
  std::int64_t total = 0;
  for (const ParameterSpec& parameter : parameters) {
    if (!parameter.decay || parameter.shape.size() < 2) continue;  // norms and biases
    const bool of_experts = parameter.shape.size() == 3;
    total += of_experts ? parameter.numel() / experts.num_experts * experts.experts_per_token
                        : parameter.numel();
  }
  return total;
}

static std::int64_t num_matmul_parameters(const DecoderConfig& config) {
  std::int64_t total = config.vocab_size * config.hidden_size;
  for (std::int64_t layer = 0; layer < config.num_layers; ++layer) {
    total += matmul_numel(layer_parameters(config, layer), config.experts);
  }
  return total;
}

double training_flops(const DecoderConfig& config, double num_tokens, double attention_squares) {
  const auto heads_width = static_cast<double>(config.num_heads * config.head_dim);
  const auto num_layers = static_cast<double>(config.num_layers);
  return 6.0 * static_cast<double>(num_matmul_parameters(config)) * num_tokens +
         6.0 * num_layers * heads_width * attention_squares;
}

}  // namespace packtrain::tables
