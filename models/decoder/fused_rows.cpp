#include "models/decoder/fused_rows.h"

#include <numeric>
#include <string>
#include <string_view>

namespace packtrain {
namespace {

constexpr const char* kLoraA = ".lora_A";

// Ranks of the modules whose A matrices the parameter NAME.lora_A stacks.
std::vector<std::int64_t> ranks_of_modules(const DecoderConfig& config,
                                           const ParameterSpec& parameter) {
  const std::string weight = parameter.name.substr(0, parameter.name.find(kLoraA)) + ".weight";
  const std::vector<WeightUpdate> updates = config.updates_of(weight);
  const auto& modules = updates.at(static_cast<std::size_t>(parameter.adapter)).modules;
  std::vector<std::int64_t> ranks;
  for (const LoraModule& module : *modules) ranks.push_back(module.rank);
  return ranks;
}

// A gate of the output is before the queries (layer_operators.cpp).
std::vector<std::int64_t> rows_of_attention(const DecoderConfig& config, std::int64_t layer,
                                            std::int64_t rows) {
  const std::int64_t head_dim = config.head_dim_of(layer);
  const std::int64_t keys = config.num_kv_heads_of(layer) * head_dim;
  const std::int64_t queries = config.num_heads * head_dim;
  std::vector<std::int64_t> parts = {queries};
  parts.resize(1 + config.num_projected_kv_heads(layer) / config.num_kv_heads_of(layer), keys);
  if (config.attention_gate) parts.insert(parts.begin(), queries);
  const bool fits = std::accumulate(parts.begin(), parts.end(), std::int64_t{0}) == rows;
  return fits && parts.size() > 1 ? parts : std::vector<std::int64_t>{};
}

// The layer's number in "layers.12.attention.qkv.weight".
std::int64_t layer_number(std::string_view parameter) {
  constexpr std::string_view kLayers = "layers.";
  return std::stoll(std::string(parameter.substr(kLayers.size())));
}

}  // namespace

std::vector<std::int64_t> fused_rows(const DecoderConfig& config, const ParameterSpec& parameter) {
  const std::string_view name = parameter.name;
  if (parameter.shape.size() < 2) return {};
  const std::int64_t rows = parameter.shape[parameter.shape.size() - 2];
  if (parameter.in_adapter) {
    const bool is_stacked =
        name.find(kLoraA) != std::string_view::npos && parameter.shape.size() == 2;
    return is_stacked ? ranks_of_modules(config, parameter) : std::vector<std::int64_t>{};
  }
  if (name.ends_with(".attention.qkv.weight")) {
    return rows_of_attention(config, layer_number(name), rows);
  }
  if (name.ends_with(".attention.key_value_a.weight")) {
    return {config.latent.key_value_rank, config.resolved_rotary_dim()};
  }
  const DeltaNetConfig& net = config.delta_net;
  if (name.ends_with(".delta_net.qkvz.weight")) {
    return {net.key_width(), net.key_width(), net.value_width(), net.value_width()};
  }
  if (name.ends_with(".short_conv.bcx.weight")) return {rows / 3, rows / 3, rows / 3};
  if (name.ends_with(".mamba2.zxbcdt.weight")) {
    const Mamba2Config& mamba = config.mamba2;
    const std::int64_t shared = mamba.num_groups * mamba.state_dim;
    return {mamba.width(), mamba.width(), shared, shared, mamba.num_heads};
  }
  if (name.ends_with(".delta_net.ba.weight")) return {net.num_value_heads, net.num_value_heads};
  if (name.ends_with(".gate_up.weight") && config.activation.gated) return {rows / 2, rows / 2};
  return {};
}

}  // namespace packtrain
