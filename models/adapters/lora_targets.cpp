#include "models/adapters/lora_targets.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>
#include <set>
#include <string_view>
#include <utility>

#include "framework/core/error.h"
#include "framework/core/wildcard.h"
#include "models/adapters/model_modules.h"
#include "models/families/weight_map.h"

namespace packtrain {
namespace {

constexpr std::string_view kAllLinear = "all-linear";

[[noreturn]] void fail(const std::string& message, const std::string& advice) {
  throw Error(ErrorCategory::kConfig, message, advice);
}

bool matches_path(const std::string& pattern, const std::string& path) {
  if (pattern.find('*') != std::string::npos) return matches_wildcard(pattern, path);
  return path == pattern || path.ends_with("." + pattern);
}

bool matches(const std::string& pattern, const ModelModule& module) {
  return matches_path(pattern, module.path) ||
         (module.has_own_name && matches_path(pattern, module.own_path()));
}

// A name without `*` chooses experts only if it says so: down_proj does not.
bool chooses(const std::string& pattern, const ModelModule& module) {
  const bool may_choose = !module.of_experts || pattern.find('*') != std::string::npos ||
                          pattern.find("experts") != std::string::npos;
  return may_choose && matches(pattern, module);
}

// An embedding or head of its own, which may be targets by name.
bool is_embedding_or_head(const ModelModule& module) {
  return module.parameter == "embed.weight" || module.parameter == "head.weight";
}

// A linear layer of attention, of another mixer, or of an MLP.
bool is_projection(const ModelModule& module) {
  static constexpr std::string_view kEndings[] = {
      ".qkv",     ".qkvz",    ".ba",          ".bcx",    ".zxbcdt",      ".query",
      ".query_a", ".query_b", ".key_value_a", ".output", ".key_value_b", ".gate_up",
      ".up",      ".down",    ".gate",        ".left",   ".right"};
  const std::string path = module.own_path();
  return module.layer >= 0 && module.shape.size() == 2 &&
         std::ranges::any_of(kEndings, [&](auto ending) { return path.ends_with(ending); });
}

bool is_transformed(const ModelModule& module, const std::vector<std::int64_t>& layers) {
  return layers.empty() || std::ranges::find(layers, module.layer) != layers.end();
}

template <class Value>
Value chosen(const std::vector<std::pair<std::string, Value>>& patterns, const ModelModule& module,
             Value fallback) {
  for (const auto& [pattern, value] : patterns) {
    if (matches(pattern, module)) return value;
  }
  return fallback;
}

LoraModule lora_module(const ModelModule& module, const LoraOptions& options) {
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

std::string last_name(const ModelModule& module) {
  return module.path.substr(module.path.rfind('.') + 1);
}

std::set<std::string> last_names(const std::vector<ModelModule>& modules) {
  std::set<std::string> names;
  for (const ModelModule& module : modules) {
    if (is_projection(module)) names.insert(last_name(module));
  }
  return names;
}

// A sentence of advice; empty for a model without experts.
std::string names_of_experts(const std::vector<ModelModule>& modules) {
  std::set<std::string> names;
  for (const ModelModule& module : modules) {
    if (module.of_experts && module.can_adapt) names.insert("experts." + last_name(module));
  }
  return names.empty() ? "" : fmt::format(" Its experts are {}.", fmt::join(names, ", "));
}

[[noreturn]] void fail_unmatched(const char* key, const std::string& pattern,
                                 const std::vector<ModelModule>& modules) {
  fail(fmt::format("{}: '{}' matches no module", key, pattern),
       fmt::format("Linear layers of this model are named {}; all-linear is all of them. A name "
                   "with * matches a whole path such as {}.{}",
                   fmt::join(last_names(modules), ", "), modules.back().path,
                   names_of_experts(modules)));
}

class Selection {
 public:
  Selection(const LoraOptions& options, const std::vector<ModelModule>& modules)
      : options_(options), modules_(modules) {
    check_all_used("adapter.targets", options.targets, chooses);
    check_all_used("adapter.exclude", options.exclude, chooses);
    check_all_used("adapter.rank_pattern", names(options.rank_pattern), matches);
    check_all_used("adapter.alpha_pattern", names(options.alpha_pattern), matches);
  }

  bool is_target(const ModelModule& module) const {
    if (!is_transformed(module, options_.layers_to_transform)) return false;
    if (any(options_.exclude, module)) return false;
    return std::ranges::any_of(options_.targets, [&](const std::string& pattern) {
      return pattern == kAllLinear ? is_projection(module) : chooses(pattern, module);
    });
  }

  static bool any(const std::vector<std::string>& patterns, const ModelModule& module) {
    return std::ranges::any_of(patterns, [&](const auto& p) { return chooses(p, module); });
  }

 private:
  template <class Value>
  static std::vector<std::string> names(
      const std::vector<std::pair<std::string, Value>>& patterns) {
    std::vector<std::string> list;
    for (const auto& [name, value] : patterns) list.push_back(name);
    return list;
  }

  template <class Matches>
  void check_all_used(const char* key, const std::vector<std::string>& patterns,
                      const Matches& is_match) const {
    for (const std::string& pattern : patterns) {
      if (&patterns == &options_.targets && pattern == kAllLinear) continue;
      const bool is_used = std::ranges::any_of(
          modules_, [&](const ModelModule& module) { return is_match(pattern, module); });
      if (!is_used) fail_unmatched(key, pattern, modules_);
    }
  }

  const LoraOptions& options_;
  const std::vector<ModelModule>& modules_;
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
void add_trained(const std::vector<ModelModule>& modules, const DecoderConfig& config,
                 const LoraOptions& options, AdapterTargets& targets) {
  const auto shapes = parameter_shapes(config);
  for (const std::string& pattern : options.save) {
    bool found = false;
    for (const ModelModule& module : modules) {
      if (!chooses(pattern, module)) continue;
      found = true;
      if (module.of_experts) {
        fail(fmt::format("adapter.save: '{}' matches {}, and experts are not trained whole with "
                         "an adapter",
                         pattern, module.path),
             "Give them an adapter instead (adapter.targets).");
      }
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

void check_experts(const ModelModule& module, const DecoderConfig& config,
                   const LoraOptions& options) {
  if (!module.can_adapt) {
    fail(fmt::format("adapter.targets: {}: the experts of {} have no parameter [experts, outputs, "
                     "inputs] in transformers, which PEFT could adapt",
                     module.path, config.family),
         "Name other modules, such as all-linear.");
  }
  if (options.dropout == 0) return;
  fail(fmt::format("adapter.dropout is {}, but adapter.targets has {}, and adapters of experts "
                   "have no dropout",
                   options.dropout, module.path),
       "Set adapter.dropout to 0, or leave experts out.");
}

// A singular value decomposition is of one matrix, and an embedding's product is none.
void check_matrix(const ModelModule& module, const LoraOptions& options) {
  if (!is_from_base(options.initialization)) return;
  if (!module.of_experts && module.parameter != "embed.weight") return;
  fail(fmt::format("adapter.init: {} computes initial values of linear layers, and {} is none",
                   is_pissa(options.initialization) ? "pissa" : "loftq", module.path),
       "Leave the module out of adapter.targets, or set adapter.init: default.");
}

// A head computes its loss in the same operator, an embedding has no product, and PEFT has no
// magnitudes of experts.
void check_has_magnitudes(const ModelModule& module, const LoraOptions& options) {
  if (!options.use_dora) return;
  if (!module.of_experts && !is_embedding_or_head(module)) return;
  fail(fmt::format("adapter.use_dora: magnitudes are of linear layers of attention and MLP, and {} "
                   "is none",
                   module.path),
       "Leave the module out of adapter.targets, or set adapter.use_dora: false.");
}

// Throws when the module cannot have an adapter.
void check_target(const ModelModule& module, const DecoderConfig& config,
                  const LoraOptions& options) {
  check_matrix(module, options);
  check_has_magnitudes(module, options);
  if (module.of_experts) return check_experts(module, config, options);
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
}

}  // namespace

AdapterTargets find_lora_targets(const DecoderConfig& config, const LoraOptions& options) {
  check_layers(config, options);
  const std::vector<ModelModule> modules = find_modules(config);
  const Selection selection(options, modules);
  AdapterTargets targets;
  targets.name = options.name;
  targets.dropout = options.dropout;
  targets.use_dora = options.use_dora;
  targets.initialization = options.initialization;
  targets.num_iterations = options.num_iterations;
  add_trained(modules, config, options, targets);
  for (const ModelModule& module : modules) {
    if (!selection.is_target(module)) continue;
    check_target(module, config, options);
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
