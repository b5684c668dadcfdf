#include "models/decoder/fused_rows.h"

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
  const std::int64_t keys = config.num_kv_heads * config.head_dim;
  const std::int64_t queries = config.num_heads * config.head_dim;
  if (name.ends_with(".attention.qkv.weight") && rows == queries + 2 * keys) {
    return {queries, keys, keys};
  }
  if (name.ends_with(".gate_up.weight") && config.activation.gated) return {rows / 2, rows / 2};
  return {};
}

}  // namespace packtrain
