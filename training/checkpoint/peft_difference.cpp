#include "training/checkpoint/peft_difference.h"

#include <ATen/ops/cat.h>

#include <map>
#include <memory>
#include <string>
#include <vector>

#include "models/adapters/adapter_weights.h"

namespace packtrain {
namespace {

// Rows of each module's A, then of its A0.
at::Tensor joined_a(const LoraModules& modules, const at::Tensor& a, const at::Tensor& initial) {
  std::vector<at::Tensor> rows;
  std::int64_t first = 0;
  for (const LoraModule& module : modules) {
    rows.push_back(a.narrow(0, first, module.rank));
    rows.push_back(initial.narrow(0, first, module.rank));
    first += module.rank;
  }
  return at::cat(rows);
}

std::shared_ptr<const AdapterTargets> with_twice_the_rank(const AdapterTargets& targets) {
  auto doubled = std::make_shared<AdapterTargets>(targets);
  doubled->initialization = LoraInitialization::kDefault;
  for (auto& [weight, modules] : doubled->weights) {
    for (LoraModule& module : modules) module.rank *= 2;
  }
  return doubled;
}

}  // namespace

PlainAdapter over_original_model(const DecoderConfig& config, const ParameterSource& checkpoint) {
  const auto targets = config.adapter;
  std::map<std::string, const LoraModules*> modules_of_a;
  for (const auto& [weight, modules] : targets->weights) {
    modules_of_a.emplace(lora_a_name(weight, targets->name), &modules);
  }
  PlainAdapter plain{config, {}};
  plain.config.adapter = with_twice_the_rank(*targets);
  plain.source = [=](const std::string& name) {
    at::Tensor trained = checkpoint(name);
    if (targets->trained.contains(name) || is_magnitude_name(name)) return trained;
    const at::Tensor initial = checkpoint(initial_name(name));
    const auto a = modules_of_a.find(name);
    if (a != modules_of_a.end()) return joined_a(*a->second, trained, initial);
    return at::cat({trained, initial.neg()}, 1);
  };
  return plain;
}

}  // namespace packtrain
