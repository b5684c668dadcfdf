#include "training/setup/adapter_residual.h"

#include <fmt/format.h>

#include <map>
#include <optional>

#include "framework/core/error.h"
#include "framework/device/tensor_type.h"
#include "models/adapters/adapter_weights.h"
#include "models/adapters/low_rank.h"
#include "training/checkpoint/checkpoint.h"
#include "training/checkpoint/encode_shard.h"
#include "training/setup/first_parameter.h"

namespace packtrain {
namespace {

// Of this rank, by weight. A weight is one shard or none.
std::map<std::string, ShardView> shards_with_updates(const AdapterTargets& targets,
                                                     ShardedModel& model) {
  std::map<std::string, ShardView> shards;
  for (const ShardView& shard : model.parameters().shards()) {
    if (targets.find(shard.parameter) != nullptr) shards.emplace(shard.parameter, shard);
  }
  return shards;
}

void encode(const at::Tensor& values, const ShardView& shard) {
  encode_shard(shard, [&](std::int64_t begin, std::int64_t numel) {
    return values.narrow(0, begin, numel).to(shard.weight.device());
  });
}

}  // namespace

InitialUpdate read_initial_update(const std::string& checkpoint, const std::string& weight,
                                  const AdapterTargets& targets, std::int64_t inputs) {
  const LoraModules& modules = *targets.find(weight);
  std::vector<ShardView> shards = {whole_parameter(initial_name(lora_a_name(weight, targets.name)),
                                                   {total_rank(modules), inputs})};
  for (const LoraModule& module : modules) {
    shards.push_back(whole_parameter(initial_name(lora_b_name(weight, module, targets.name)),
                                     {module.num_rows, module.rank}));
  }
  load_checkpoint(checkpoint, shards, /*with_optimizer_state=*/false);
  InitialUpdate initial{shards.front().weight.view(shards.front().shape), {}};
  for (std::size_t m = 1; m < shards.size(); ++m) {
    initial.b.push_back(shards[m].weight.view(shards[m].shape));
  }
  return initial;
}

void subtract_initial(const LoraModules& modules, const InitialUpdate& initial,
                      const ShardView& shard, const std::function<at::Tensor()>& first_values) {
  if (!shard.encoded_ranges.empty()) {
    const at::Tensor values = first_values().view({-1});
    subtract_updates(modules, initial.a, initial.b, 0, values);
    return encode(values, shard);
  }
  // A copy, also of float32 on the CPU: the shard is not written in place.
  const at::Tensor values =
      shard.weight.to(at::TensorOptions(at::kFloat).device(at::kCPU), false, /*copy=*/true);
  subtract_updates(modules, initial.a, initial.b, shard.begin, values);
  shard.weight.copy_(values);
}

at::Tensor residual_values(const ModelSource& source, std::uint64_t seed, const ParameterSpec& spec,
                           const LoraModules& modules, const InitialUpdate& initial) {
  ShardView shard = first_parameter(source, seed, spec);
  shard.weight = shard.weight.to(scalar_type(spec.encoding.stored_type()));  // as the run has it
  subtract_initial(modules, initial, shard, [&] { return first_values(source, seed, spec); });
  if (shard.encoded_ranges.empty()) shard.weight = shard.weight.to(at::kFloat);
  return decoded_values(shard, spec);
}

void check_same_residual(const ModelSource& source, const std::string& checkpoint) {
  const auto saved = adapter_of_checkpoint(checkpoint);
  const bool was_pissa = saved && is_pissa(saved->adapters.front().initialization);
  const bool will_be = is_pissa(source.decoder.adapter->initialization);
  if (was_pissa == will_be) return;
  throw Error(ErrorCategory::kCheckpoint,
              fmt::format("{} was {}trained with adapter.init: pissa, and this run is {}",
                          checkpoint, was_pissa ? "" : "not ", was_pissa ? "not" : "to be"),
              "Its adapter is of other weights: set adapter.init as it was, or give this run its "
              "own run.output.");
}

std::vector<ShardView> copy_initial_values(ShardedModel& model) {
  std::vector<ShardView> copies;
  for (const ShardView& shard : model.parameters().shards()) {
    if (!shard.in_adapter || is_magnitude_name(shard.parameter)) continue;
    copies.push_back({.parameter = initial_name(shard.parameter),
                      .shape = shard.shape,
                      .begin = shard.begin,
                      .numel = shard.numel,
                      .trainable = false,
                      .weight = shard.weight.to(at::TensorOptions(at::kFloat).device(at::kCPU),
                                                false, /*copy=*/true)});
  }
  return copies;
}

std::vector<ShardView> subtract_saved_values(const std::string& checkpoint,
                                             const ModelSource& source, std::uint64_t seed,
                                             ShardedModel& model) {
  const AdapterTargets& targets = *source.decoder.adapter;
  if (!is_pissa(targets.initialization)) return {};
  std::vector<ShardView> own = copy_initial_values(model);
  load_checkpoint(checkpoint, own, /*with_optimizer_state=*/false);
  const auto specs = parameters_by_name(model.units());
  for (const auto& [weight, shard] : shards_with_updates(targets, model)) {
    const ParameterSpec& spec = *specs.at(weight);
    const InitialUpdate initial =
        read_initial_update(checkpoint, weight, targets, spec.shape.back());
    subtract_initial(*targets.find(weight), initial, shard,
                     [&] { return first_values(source, seed, spec); });
  }
  return own;
}

}  // namespace packtrain
