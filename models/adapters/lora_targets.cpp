#include "models/adapters/lora_targets.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>
#include <optional>
#include <string_view>
#include <utility>

#include "framework/core/error.h"
#include "framework/core/wildcard.h"
#include "models/families/parameter_parts.h"
#include "models/families/weight_map.h"

namespace packtrain {
namespace {

constexpr std::string_view kAllLinear = "all-linear";
constexpr std::string_view kWeight = ".weight";

[[noreturn]] void fail(const std::string& message, const std::string& advice) {
  throw Error(ErrorCategory::kConfig, message, advice);
}

std::string without_weight(std::string name) {
  if (name.ends_with(kWeight)) name.resize(name.size() - kWeight.size());
  return name;
}

// A module of the model that has a weight.
struct Module {
  std::string path;       // Hugging Face
  std::string parameter;  // that holds its rows
  std::vector<std::int64_t> shape;
  std::int64_t begin = 0;
  std::int64_t num_rows = 0;
  std::int64_t layer = -1;  // -1: embedding, final norm, head

  std::string own_path() const { return without_weight(parameter); }
};

bool matches_path(const std::string& pattern, const std::string& path) {
  if (pattern.find('*') != std::string::npos) return matches_wildcard(pattern, path);
  return path == pattern || path.ends_with("." + pattern);
}

bool matches(const std::string& pattern, const Module& module) {
  return matches_path(pattern, module.path) || matches_path(pattern, module.own_path());
}

// The layer's number in "layers.12.attention.qkv.weight".
std::int64_t layer_of(const std::string& parameter) {
  constexpr std::string_view kLayers = "layers.";
  return parameter.starts_with(kLayers) ? std::stoll(parameter.substr(kLayers.size())) : -1;
}

// The rows of one tensor in a parameter are one range, in any order.
void add_part(const ParameterPart& part, Module& module) {
  const std::int64_t end = part.begin + (part.num_runs - 1) * part.stride + part.num_rows;
  if (module.num_rows == 0) module.begin = part.begin;
  module.num_rows = std::max(module.begin + module.num_rows, end) - module.begin;
}

std::vector<Module> find_modules(const DecoderConfig& config) {
  const auto shapes = parameter_shapes(config);
  std::vector<Module> modules;
  for (const auto& [parameter, parts] : parameter_parts(config)) {
    if (!parameter.ends_with(kWeight)) continue;
    std::map<std::string, Module> of_parameter;
    for (const ParameterPart& part : parts) {
      Module& module = of_parameter[part.tensor];
      module.path = without_weight(part.tensor);
      module.parameter = parameter;
      module.shape = shapes.at(parameter);
      module.layer = layer_of(parameter);
      add_part(part, module);
    }
    for (auto& [tensor, module] : of_parameter) modules.push_back(std::move(module));
  }
  std::ranges::stable_sort(modules, {}, &Module::begin);
  return modules;
}

// An embedding or head of its own, which may be targets by name.
bool is_embedding_or_head(const Module& module) {
  return module.parameter == "embed.weight" || module.parameter == "head.weight";
}

// A linear layer of attention or MLP.
bool is_projection(const Module& module) {
  static constexpr std::string_view kEndings[] = {".qkv", ".output", ".gate_up", ".up", ".down"};
  const std::string path = module.own_path();
  return module.layer >= 0 && module.shape.size() == 2 &&
         std::ranges::any_of(kEndings, [&](auto ending) { return path.ends_with(ending); });
}

bool is_transformed(const Module& module, const std::vector<std::int64_t>& layers) {
  return layers.empty() || std::ranges::find(layers, module.layer) != layers.end();
}

template <class Value>
Value chosen(const std::vector<std::pair<std::string, Value>>& patterns, const Module& module,
             Value fallback) {
  for (const auto& [pattern, value] : patterns) {
    if (matches(pattern, module)) return value;
  }
  return fallback;
}

LoraModule lora_module(const Module& module, const LoraOptions& options) {
  const std::int64_t rank = chosen(options.rank_pattern, module, options.rank);
  const double alpha = chosen(options.alpha_pattern, module, options.alpha);
  const std::int64_t most = std::min(module.num_rows, module.shape.back());
  if (rank > most) {
    fail(fmt::format("adapter.rank is {}, but {} is a matrix [{}, {}]", rank, module.path,
                     module.num_rows, module.shape.back()),
         fmt::format("Give a rank of at most {}, for this module alone in adapter.rank_pattern, "
                     "or leave it out in adapter.exclude.",
                     most));
  }
  const double divisor =
      options.use_rslora ? std::sqrt(static_cast<double>(rank)) : static_cast<double>(rank);
  // The rows of an embedding are its inputs.
  const std::int64_t outputs =
      module.parameter == "embed.weight" ? module.shape.back() : module.num_rows;
  return {module.path, module.begin, outputs, rank, alpha / divisor};
}

std::vector<std::string> last_names(const std::vector<Module>& modules) {
  std::set<std::string> names;
  for (const Module& module : modules) {
    if (is_projection(module)) names.insert(module.path.substr(module.path.rfind('.') + 1));
  }
  return {names.begin(), names.end()};
}

[[noreturn]] void fail_unmatched(const char* key, const std::string& pattern,
                                 const std::vector<Module>& modules) {
  fail(fmt::format("{}: '{}' matches no module", key, pattern),
       fmt::format("Linear layers of this model are named {}; all-linear is all of them. A name "
                   "with * matches a whole path such as {}.",
                   fmt::join(last_names(modules), ", "), modules.back().path));
}

class Selection {
 public:
  Selection(const LoraOptions& options, const std::vector<Module>& modules)
      : options_(options), modules_(modules) {
    check_all_used("adapter.targets", options.targets, true);
    check_all_used("adapter.exclude", options.exclude, false);
    check_all_used("adapter.rank_pattern", names(options.rank_pattern), false);
    check_all_used("adapter.alpha_pattern", names(options.alpha_pattern), false);
  }

  bool is_target(const Module& module) const {
    if (!is_transformed(module, options_.layers_to_transform)) return false;
    if (any(options_.exclude, module)) return false;
    return std::ranges::any_of(options_.targets, [&](const std::string& pattern) {
      return pattern == kAllLinear ? is_projection(module) : matches(pattern, module);
    });
  }

  static bool any(const std::vector<std::string>& patterns, const Module& module) {
    return std::ranges::any_of(patterns, [&](const auto& p) { return matches(p, module); });
  }

 private:
  template <class Value>
  static std::vector<std::string> names(
      const std::vector<std::pair<std::string, Value>>& patterns) {
    std::vector<std::string> list;
    for (const auto& [name, value] : patterns) list.push_back(name);
    return list;
  }

  void check_all_used(const char* key, const std::vector<std::string>& patterns,
                      bool may_be_all) const {
    for (const std::string& pattern : patterns) {
      if (may_be_all && pattern == kAllLinear) continue;
      const auto is_match = [&](const Module& module) { return matches(pattern, module); };
      if (std::ranges::none_of(modules_, is_match)) fail_unmatched(key, pattern, modules_);
    }
  }

  const LoraOptions& options_;
  const std::vector<Module>& modules_;
};

void check_layers(const DecoderConfig& config, const LoraOptions& options) {
  for (const std::int64_t layer : options.layers_to_transform) {
    if (layer < config.num_layers) continue;
    fail(fmt::format("adapter.layers_to_transform: {}, but the model has {} layers", layer,
                     config.num_layers),
         "Layers are counted from 0.");
  }
}

// Whole parameters, biases too. A module that shares its parameter with others cannot be saved.
void add_trained(const std::vector<Module>& modules, const DecoderConfig& config,
                 const LoraOptions& options, AdapterTargets& targets) {
  const auto shapes = parameter_shapes(config);
  for (const std::string& pattern : options.save) {
    bool found = false;
    for (const Module& module : modules) {
      if (!matches(pattern, module)) continue;
      found = true;
      if (module.num_rows != module.shape.front()) {
        fail(fmt::format("adapter.save: '{}' matches {}, which is stored together with other "
                         "modules as {}",
                         pattern, module.path, module.parameter),
             "Give it an adapter instead (adapter.targets), or save all of them.");
      }
      targets.trained.insert(module.parameter);
      const std::string bias = module.own_path() + ".bias";
      if (shapes.contains(bias)) targets.trained.insert(bias);
    }
    if (!found) fail_unmatched("adapter.save", pattern, modules);
  }
}

}  // namespace

AdapterTargets find_lora_targets(const DecoderConfig& config, const LoraOptions& options) {
  check_layers(config, options);
  const std::vector<Module> modules = find_modules(config);
  const Selection selection(options, modules);
  AdapterTargets targets;
  targets.dropout = options.dropout;
  targets.initialization = options.initialization;
  add_trained(modules, config, options, targets);
  for (const Module& module : modules) {
    if (!selection.is_target(module)) continue;
    if (!is_projection(module) && !is_embedding_or_head(module)) {
      fail(fmt::format("adapter.targets: {} is no linear layer of attention or MLP", module.path),
           "Train it whole (adapter.save), or name other modules.");
    }
    if (config.tied_embeddings && is_embedding_or_head(module)) {
      fail(fmt::format("adapter.targets: {} is the head's weight too, which an adapter of the "
                       "embedding would not change",
                       module.path),
           "Train it whole (adapter.save).");
    }
    if (targets.trained.contains(module.parameter)) continue;
    targets.weights[module.parameter].push_back(lora_module(module, options));
  }
  if (targets.weights.empty() && targets.trained.empty()) {
    fail("adapter.targets and adapter.layers_to_transform leave no module",
         "Remove a pattern from adapter.exclude, or name other targets.");
  }
  return targets;
}

}  // namespace packtrain
