#include "training/checkpoint/hf_types.h"

#include <algorithm>
#include <cstdint>
#include <iterator>
#include <nlohmann/json.hpp>
#include <set>
#include <utility>

namespace packtrain {
namespace {

struct NamedType {
  DataType type;
  const char* name;
};

constexpr NamedType kWeightTypes[] = {{DataType::kFloat32, "float32"},
                                      {DataType::kBFloat16, "bfloat16"},
                                      {DataType::kFloat16, "float16"}};

bool is_weight_type(DataType type) {
  return std::ranges::find(kWeightTypes, type, &NamedType::type) != std::end(kWeightTypes);
}

// The type that most elements have, bfloat16 without any.
DataType most_common(const HfTensors& tensors) {
  std::map<DataType, std::int64_t> num_elements = {{DataType::kBFloat16, 0}};
  for (const auto& [name, tensor] : tensors) {
    if (is_weight_type(tensor.view->dtype))
      num_elements[tensor.view->dtype] += tensor.view->numel();
  }
  return std::ranges::max_element(num_elements, {},
                                  &std::pair<const DataType, std::int64_t>::second)
      ->first;
}

std::string type_in(const nlohmann::json& config) {
  for (const char* key : {"dtype", "torch_dtype"}) {
    const auto found = config.find(key);
    if (found == config.end() || !found->is_string()) continue;
    const auto known = std::ranges::find_if(kWeightTypes, [&](const NamedType& one) {
      return found->get_ref<const std::string&>() == one.name;
    });
    if (known != std::end(kWeightTypes)) return known->name;
  }
  return "";
}

}  // namespace

HfTypes types_of(const HfTensors& tensors, const std::vector<WeightPiece>& pieces) {
  HfTypes types{.of_others = most_common(tensors)};
  for (const WeightPiece& piece : pieces) {
    const auto found = tensors.find(piece.hf_name);
    if (found == tensors.end() || !is_weight_type(found->second.view->dtype)) continue;
    types.of_tensor[piece.hf_name] = found->second.view->dtype;
  }
  return types;
}

std::string name_in_config(DataType type) {
  const auto* const found = std::ranges::find(kWeightTypes, type, &NamedType::type);
  return found == std::end(kWeightTypes) ? "float32" : found->name;
}

std::string dtype_of_config(const std::string& config_json) {
  const auto config = nlohmann::json::parse(config_json, nullptr, /*allow_exceptions=*/false);
  if (!config.is_object()) return "";
  if (const std::string own = type_in(config); !own.empty()) return own;
  const auto text = config.find("text_config");
  return text != config.end() && text->is_object() ? type_in(*text) : "";
}

}  // namespace packtrain
