#include "training/steps/router_bias_update.h"

#include <ATen/core/grad_mode.h>
#include <ATen/ops/sign.h>
#include <ATen/ops/where.h>
#include <ATen/ops/zeros_like.h>
#include <fmt/format.h>

#include <map>
#include <string>

#include "framework/core/error.h"
#include "models/layers/expert_layers.h"

namespace packtrain {
namespace {

[[noreturn]] void fail_rate(double rate, const std::string& reason, const std::string& advice) {
  throw Error(ErrorCategory::kConfig,
              fmt::format("optimizer.router_bias_update_rate is {}, but {}", rate, reason), advice);
}

// The units of the model, by the names of their parameters.
std::map<std::string, int> units_by_parameter(const UnitTable& table) {
  std::map<std::string, int> units;
  for (std::size_t unit = 0; unit < table.units.size(); ++unit) {
    for (const UnitPart& part : table.units[unit].parts) {
      for (const Segment& segment : part.layout.segments) {
        units[segment.spec.name] = static_cast<int>(unit);
      }
    }
  }
  return units;
}

// The layers with experts, in order, by the names of their biases.
std::map<std::string, std::int64_t> expert_layers_by_bias(const DecoderConfig& decoder) {
  std::map<std::string, std::int64_t> layers;
  for (std::int64_t layer = 0; layer < decoder.num_layers; ++layer) {
    if (!decoder.layer(layer).experts) continue;
    layers[fmt::format("layers.{}.mlp.router.choice_bias", layer)] =
        num_expert_layers(decoder, layer);
  }
  return layers;
}

}  // namespace

void check_router_bias_rate(double rate, const DecoderConfig& decoder) {
  if (rate == 0) return;
  if (!decoder.experts.choice_bias) {
    fail_rate(rate, "the routers of the model have no bias for the choice of experts",
              "Leave it out. Models of deepseek_v3, ernie4_5_moe, glm4_moe and others have such "
              "biases.");
  }
  if (decoder.adapter != nullptr) {
    fail_rate(rate, "an adapter is trained, and its checkpoints have no biases of routers",
              "Leave it out, or train without an adapter.");
  }
}

RouterBiasUpdate::RouterBiasUpdate(ShardedModel& model, const DecoderConfig& decoder, double rate)
    : model_(model), num_experts_(decoder.experts.num_experts), rate_(rate) {
  const auto units = units_by_parameter(model.units());
  const auto layers = expert_layers_by_bias(decoder);
  for (const ShardView& shard : model.parameters().shards()) {
    const auto layer = layers.find(shard.parameter);
    if (layer == layers.end() || shard.numel == 0) continue;
    owned_.push_back({shard.weight, shard.begin, layer->second, units.at(shard.parameter)});
  }
}

void RouterBiasUpdate::run(const at::Tensor& counts, const at::Tensor& skipped) {
  const at::NoGradGuard no_grad;
  const at::Tensor by_layer = counts.view({-1, num_experts_});
  const at::Tensor missing = by_layer.mean(1, /*keepdim=*/true).sub(by_layer);
  // A skipped step may have counts that are not finite: its changes are replaced, not multiplied.
  const at::Tensor changes =
      at::where(skipped.gt(0), at::zeros_like(missing), at::sign(missing).mul_(rate_));
  for (const OwnedBiases& own : owned_) {
    own.values.add_(changes.select(0, own.expert_layer).narrow(0, own.begin, own.values.numel()));
    if (model_.slots().gathers()) model_.parameters().unit_updated(own.unit);
  }
}

}  // namespace packtrain
