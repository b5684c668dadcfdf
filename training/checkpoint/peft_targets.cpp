#include "training/checkpoint/peft_targets.h"

#include <fmt/format.h>

#include <algorithm>
#include <iterator>
#include <string_view>
#include <utility>
#include <vector>

#include "framework/core/error.h"
#include "framework/core/wildcard.h"
#include "models/adapters/adapter_weights.h"
#include "models/adapters/model_modules.h"

namespace packtrain {
namespace {

using Paths = std::vector<std::string>;

// The paths of the model's modules: its stacked experts, or all others.
Paths paths_of(const std::vector<ModelModule>& modules, bool of_experts) {
  Paths paths;
  for (const ModelModule& module : modules) {
    if (module.of_experts == of_experts && module.can_adapt) paths.push_back(module.path);
  }
  return paths;
}

bool ends_in(const std::string& path, const std::string& name) {
  return path == name || path.ends_with("." + name);
}

bool is_used(const std::string& name, const Paths& paths) {
  return std::ranges::any_of(paths, [&](const std::string& path) {
    return ends_in(path, name) || matches_wildcard(name, path);
  });
}

// PEFT ignores names that match nothing.
void keep_used(Paths& names, const Paths& paths) {
  std::erase_if(names, [&](const std::string& name) { return !is_used(name, paths); });
}

template <class Value>
void keep_used(std::vector<std::pair<std::string, Value>>& pattern, const Paths& paths) {
  std::erase_if(pattern, [&](const auto& entry) { return !is_used(entry.first, paths); });
}

// Its parameters have tensors named after it, and after its base_layer.
bool is_module_of_experts(const std::string& path) {
  return path.ends_with(".experts") || path.ends_with(".experts.base_layer");
}

// The linear layers and embeddings that have an A in the file.
Paths targets_in(const SafetensorsFile& file) {
  const std::string_view prefix = kPeftPrefix;
  Paths paths;
  for (const auto& [name, tensor] : file.tensors()) {
    for (const std::string_view ending : {".lora_A.weight", ".lora_embedding_A"}) {
      if (name.size() < prefix.size() + ending.size()) continue;
      if (!name.starts_with(prefix) || !name.ends_with(ending)) continue;
      const std::string path =
          name.substr(prefix.size(), name.size() - prefix.size() - ending.size());
      if (!is_module_of_experts(path)) paths.push_back(path);
    }
  }
  return paths;
}

// The experts that target_parameters names, in any layer.
Paths target_experts(const PeftConfig& config, const Paths& experts, const std::string& path) {
  for (const std::string& name : config.target_parameters) {
    const auto is_end = [&](const std::string& expert) { return ends_in(expert, name); };
    if (std::ranges::any_of(experts, is_end)) continue;
    throw Error(ErrorCategory::kConfig,
                fmt::format("{}: 'target_parameters' has '{}', which is no weight of experts of "
                            "the model",
                            path, name),
                "Adapters of routers and of other parameters are not supported. PEFT makes one of "
                "a router for all-linear.");
  }
  Paths targets;
  std::ranges::copy_if(experts, std::back_inserter(targets), [&](const std::string& expert) {
    return std::ranges::any_of(config.target_parameters,
                               [&](const std::string& name) { return ends_in(expert, name); });
  });
  return targets;
}

}  // namespace

LoraOptions peft_options(const PeftConfig& config, const SafetensorsFile& file,
                         const DecoderConfig& base, const std::string& path) {
  const std::vector<ModelModule> modules = find_modules(base);
  const Paths linear = paths_of(modules, /*of_experts=*/false);
  const Paths all_experts = paths_of(modules, /*of_experts=*/true);
  const Paths experts = target_experts(config, all_experts, path);
  LoraOptions options = config.options;
  // PEFT applies layers_to_transform to modules alone.
  const bool has_experts_in_all_layers = !experts.empty() && !options.layers_to_transform.empty();
  if (!config.has_target_list || has_experts_in_all_layers) {
    options.targets = targets_in(file);
    options.exclude.clear();
    options.layers_to_transform.clear();
  }
  for (Paths* names : {&options.targets, &options.exclude, &options.save}) {
    keep_used(*names, linear);
  }
  options.targets.insert(options.targets.end(), experts.begin(), experts.end());
  Paths all = linear;
  all.insert(all.end(), all_experts.begin(), all_experts.end());
  keep_used(options.rank_pattern, all);
  keep_used(options.alpha_pattern, all);
  return options;
}

}  // namespace packtrain
