#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <iterator>
#include <map>
#include <nlohmann/json.hpp>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "models/families/family.h"
#include "models/families/parameter_parts.h"
#include "models/families/stacked_experts.h"
#include "models/families/weight_map.h"
#include "training/checkpoint/peft_config.h"

namespace packtrain {
namespace {

using nlohmann::json;

constexpr std::string_view kWeight = ".weight";

struct Target {
  LoraModule module;
  std::int64_t layer = 0;
  bool of_experts = false;
};

constexpr std::int64_t kNoLayer = -1;  // of embedding and head

// The layer's number in "layers.12.attention.qkv.weight".
std::int64_t layer_of(const std::string& weight) {
  constexpr std::string_view kLayers = "layers.";
  return weight.starts_with(kLayers) ? std::stoll(weight.substr(kLayers.size())) : kNoLayer;
}

std::vector<Target> targets_of(const AdapterTargets& adapter) {
  std::vector<Target> targets;
  for (const auto& [weight, modules] : adapter.weights) {
    for (const LoraModule& module : modules) {
      targets.push_back({module, layer_of(weight), is_weight_of_experts(weight)});
    }
  }
  return targets;
}

// The alpha that gave the module its scale, exactly where rounding allows.
double alpha_of(const LoraModule& module, bool use_rslora) {
  const auto rank = static_cast<double>(module.rank);
  const double divisor = use_rslora ? std::sqrt(rank) : rank;
  const double alpha = module.scale * divisor;
  const double rounded = std::round(alpha * 1e6) / 1e6;  // what a person wrote
  return rounded / divisor == module.scale ? rounded : alpha;
}

json number(double value) {
  if (std::floor(value) == value && std::abs(value) < 1e15) {
    return static_cast<std::int64_t>(value);
  }
  return value;
}
json number(std::int64_t value) {
  return value;
}

template <class Value>
Value most_common(const std::map<std::string, Value>& values, Value fallback) {
  std::map<Value, std::ptrdiff_t> counts;
  for (const auto& [name, value] : values) ++counts[value];
  const auto most = std::ranges::max_element(counts, {}, [](const auto& c) { return c.second; });
  return most == counts.end() ? fallback : most->first;
}

// Values that are not `common`: by a module's last name where all with this name have one value,
// else by its path.
template <class Value>
json pattern_of(const std::map<std::string, Value>& values, Value common) {
  std::map<std::string, std::set<Value>> by_leaf;
  const auto leaf_of = [](const std::string& path) { return path.substr(path.rfind('.') + 1); };
  for (const auto& [path, value] : values) by_leaf[leaf_of(path)].insert(value);
  json pattern = json::object();
  for (const auto& [path, value] : values) {
    if (value == common) continue;
    const std::string leaf = leaf_of(path);
    pattern[by_leaf[leaf].size() == 1 ? leaf : path] = number(value);
  }
  return pattern;
}

// Last names and layers where they name the targets alone, else the paths of all targets.
void write_targets(const DecoderConfig& config, const std::vector<Target>& targets,
                   json& document) {
  std::set<std::string> leaves;
  std::set<std::int64_t> layers;
  std::vector<std::string> paths;
  for (const Target& target : targets) {
    if (target.of_experts) continue;
    leaves.insert(target.module.leaf());
    layers.insert(target.layer);
    paths.push_back(target.module.name);
  }
  std::set<std::string> named;     // by the last names, in these layers
  std::set<std::string> anywhere;  // in other layers too
  for (const auto& [parameter, parts] : parameter_parts(config)) {
    for (const ParameterPart& part : parts) {
      const std::string path = part.tensor.substr(0, part.tensor.rfind('.'));
      const bool is_named =
          part.tensor.ends_with(kWeight) && leaves.contains(path.substr(path.rfind('.') + 1));
      if (!is_named) continue;
      anywhere.insert(path);
      if (layers.contains(layer_of(parameter))) named.insert(path);
    }
  }
  const bool in_all_layers = anywhere.size() == named.size();
  const bool by_leaf =
      named.size() == paths.size() && (in_all_layers || !layers.contains(kNoLayer));
  document["target_modules"] = by_leaf ? json(leaves) : json(paths);
  document["layers_to_transform"] = by_leaf && !in_all_layers ? json(layers) : json();
}

// The end of a path from the MLP on, which is that of all layers: mlp.experts.gate_up_proj. Where
// experts are no part of an MLP, the layer's number is before them: 0.experts.gate_up_proj.
std::string name_in_layer(const std::string& path) {
  std::size_t begin = path.size();
  for (int part = 0; part < 3; ++part) begin = path.rfind('.', begin - 1);
  const std::string name = path.substr(begin + 1);
  const std::size_t end = name.find('.');
  const bool is_number = name.find_first_not_of("0123456789") == end;
  return is_number ? name.substr(end + 1) : name;
}

// Names of weights of experts, as paths where not all layers have an adapter of them.
json target_parameters(const DecoderConfig& config, const std::vector<Target>& targets) {
  std::map<std::string, std::size_t> num_layers;  // by name in the layer
  for (const auto& [weight, experts] : stacked_experts(config)) {
    ++num_layers[name_in_layer(experts.path)];
  }
  std::map<std::string, std::vector<std::string>> paths;
  for (const Target& target : targets) {
    if (target.of_experts) {
      paths[name_in_layer(target.module.name)].push_back(target.module.name);
    }
  }
  json names = json::array();
  for (const auto& [name, of_name] : paths) {
    if (of_name.size() == num_layers.at(name)) {
      names.push_back(name);
    } else {
      for (const std::string& path : of_name) names.push_back(path);
    }
  }
  return names.empty() ? json() : names;
}

// True where linear layers have their matrices as [inputs, outputs].
bool has_transposed_weights(const DecoderConfig& config) {
  return std::ranges::any_of(module_weights(config), [](const WeightPiece& piece) {
    return piece.hf_column_stride != 1 && piece.parameter.ends_with(".weight") &&
           !is_weight_of_experts(piece.parameter);
  });
}

// The paths of modules that are trained whole.
json saved_modules(const DecoderConfig& config) {
  std::set<std::string> paths;
  for (const auto& [parameter, parts] : parameter_parts(config)) {
    if (!config.adapter->trained.contains(parameter)) continue;
    for (const ParameterPart& part : parts) {
      paths.insert(part.tensor.substr(0, part.tensor.rfind('.')));
    }
  }
  return paths.empty() ? json() : json(paths);
}

}  // namespace

std::string peft_config_text(const DecoderConfig& config, const LoraOptions& options,
                             const std::string& base_model) {
  const std::vector<Target> targets = targets_of(*config.adapter);
  std::map<std::string, std::int64_t> ranks;
  std::map<std::string, double> alphas;
  for (const auto& [module, layer, of_experts] : targets) {
    ranks[module.name] = module.rank;
    alphas[module.name] = alpha_of(module, options.use_rslora);
  }
  const std::int64_t rank = most_common(ranks, options.rank);
  const double alpha = most_common(alphas, options.alpha);
  const bool is_tied = config.tied_embeddings && config.adapter->trained.contains("embed.weight");
  const bool is_gaussian = options.initialization == LoraInitialization::kGaussian;
  json document = {
      {"peft_type", "LORA"},
      {"task_type", "CAUSAL_LM"},
      {"base_model_name_or_path", base_model},
      {"inference_mode", true},
      {"r", rank},
      {"lora_alpha", number(alpha)},
      {"lora_dropout", options.dropout},
      {"use_rslora", options.use_rslora},
      {"use_dora", options.use_dora},
      {"bias", "none"},
      {"fan_in_fan_out", has_transposed_weights(config)},
      {"init_lora_weights", is_gaussian ? json("gaussian") : json(true)},
      {"rank_pattern", pattern_of(ranks, rank)},
      {"alpha_pattern", pattern_of(alphas, alpha)},
      {"modules_to_save", saved_modules(config)},
      {"ensure_weight_tying", is_tied},
  };
  write_targets(config, targets, document);
  document["target_parameters"] = target_parameters(config, targets);
  return document.dump(2) + "\n";
}

}  // namespace packtrain
