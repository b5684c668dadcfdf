#include "models/adapters/model_modules.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <string_view>
#include <utility>

#include "models/families/parameter_parts.h"
#include "models/families/stacked_experts.h"
#include "models/families/weight_map.h"

namespace packtrain {
namespace {

constexpr std::string_view kWeight = ".weight";

std::string without_weight(std::string name) {
  if (name.ends_with(kWeight)) name.resize(name.size() - kWeight.size());
  return name;
}

// The layer's number in "layers.12.attention.qkv.weight".
std::int64_t layer_of(const std::string& parameter) {
  constexpr std::string_view kLayers = "layers.";
  return parameter.starts_with(kLayers) ? std::stoll(parameter.substr(kLayers.size())) : -1;
}

// The rows of one tensor in a parameter are one range, in any order.
void add_part(const ParameterPart& part, ModelModule& module) {
  const std::int64_t end = part.begin + (part.num_runs - 1) * part.stride + part.num_rows;
  if (module.num_rows == 0) module.begin = part.begin;
  module.num_rows = std::max(module.begin + module.num_rows, end) - module.begin;
}

using Shape = std::vector<std::int64_t>;

// Where a family has another layout, the path is ours.
ModelModule module_of_experts(const std::string& parameter, const Shape& shape,
                              const std::map<std::string, StackedExperts>& stacked) {
  ModelModule module{without_weight(parameter), parameter, shape};
  module.num_rows = shape.at(1);
  module.layer = layer_of(parameter);
  module.of_experts = true;
  const auto found = stacked.find(parameter);
  module.can_adapt = found != stacked.end();
  if (module.can_adapt) module.path = found->second.path;
  return module;
}

void add_modules(const std::string& parameter, const Shape& shape,
                 const std::vector<ParameterPart>& parts, std::vector<ModelModule>& modules) {
  std::map<std::string, ModelModule> of_parameter;
  for (const ParameterPart& part : parts) {
    ModelModule& module = of_parameter[part.tensor];
    module.path = without_weight(part.tensor);
    module.parameter = parameter;
    module.shape = shape;
    module.layer = layer_of(parameter);
    add_part(part, module);
  }
  for (auto& [tensor, module] : of_parameter) modules.push_back(std::move(module));
}

// Our names of modules outside of layers may be those of modules of layers in transformers.
void find_own_names(std::vector<ModelModule>& modules) {
  for (ModelModule& outside : modules) {
    if (outside.layer >= 0) continue;
    const std::string ending = fmt::format(".{}", outside.own_path());
    outside.has_own_name = std::ranges::none_of(modules, [&](const ModelModule& module) {
      return module.layer >= 0 && module.path.ends_with(ending);
    });
  }
}

}  // namespace

std::string ModelModule::own_path() const {
  return without_weight(parameter);
}

std::vector<ModelModule> find_modules(const DecoderConfig& config) {
  const auto shapes = parameter_shapes(config);
  const auto stacked = stacked_experts(config);
  std::vector<ModelModule> modules;
  for (const auto& [parameter, parts] : parameter_parts(config)) {
    if (!parameter.ends_with(kWeight)) continue;
    const Shape& shape = shapes.at(parameter);
    if (is_weight_of_experts(parameter)) {
      modules.push_back(module_of_experts(parameter, shape, stacked));
    } else {
      add_modules(parameter, shape, parts, modules);
    }
  }
  std::ranges::stable_sort(modules, {}, &ModelModule::begin);
  find_own_names(modules);
  return modules;
}

}  // namespace packtrain
