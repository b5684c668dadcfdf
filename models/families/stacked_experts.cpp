#include "models/families/stacked_experts.h"

#include <algorithm>
#include <cstddef>
#include <string>
#include <string_view>

#include "models/families/family.h"
#include "models/families/weight_map.h"

namespace packtrain {
namespace {

constexpr std::string_view kGateUpWeight = ".experts.gate_up.weight";
constexpr std::string_view kDownWeight = ".experts.down.weight";

// All maps of the family's tensors.
std::vector<std::vector<WeightPiece>> layouts_of(const DecoderConfig& config) {
  const Family& family = find_family(config.family);
  std::vector<std::vector<WeightPiece>> layouts = {family.weights(config)};
  if (family.other_weights != nullptr) {
    for (auto& other : family.other_weights(config)) layouts.push_back(std::move(other));
  }
  return layouts;
}

// A parameter of a module has no ".weight" in its name. PEFT takes matrices [inputs, outputs] of
// Llama 4 for [outputs, inputs]. Its update would be another one.
bool is_in_module(const WeightPiece& piece) {
  const bool is_transposed = piece.hf_column_stride != 1;
  if (is_transposed && piece.hf_name.find(".feed_forward.experts.") != std::string::npos) {
    return false;
  }
  return piece.coding == WeightCoding::kPlain && piece.hf_shape.size() == 3 &&
         (piece.hf_name.ends_with(".experts.gate_up_proj") ||
          piece.hf_name.ends_with(".experts.up_proj") ||
          piece.hf_name.ends_with(".experts.down_proj"));
}

StackedExperts sizes_of(const DecoderConfig& config, const WeightPiece& piece) {
  const ExpertsConfig& experts = config.experts;
  const std::int64_t hidden = config.hidden_size;
  const std::int64_t inner = experts.intermediate_size;
  if (piece.parameter.ends_with(kDownWeight)) {
    return {piece.hf_name, experts.num_experts, hidden, inner, {}};
  }
  return {
      piece.hf_name, experts.num_experts, config.activation.gated ? 2 * inner : inner, hidden, {}};
}

// The rows of a piece that begins in the first expert.
ExpertRows rows_of(const WeightPiece& piece, const StackedExperts& experts) {
  const std::int64_t in = experts.num_inputs;
  const std::int64_t begin = piece.begin / in;
  if (piece.hf_column_stride != 1) {  // matrices [inputs, outputs]
    return {begin, piece.rows, piece.hf_begin, piece.hf_row_stride};
  }
  const bool by_rows = piece.rows > 1 && piece.columns == in;
  return {begin, std::min(piece.numel() / in, experts.num_outputs - begin), piece.hf_begin / in,
          by_rows ? piece.hf_row_stride / in : 1};
}

}  // namespace

bool is_weight_of_experts(const std::string& parameter) {
  return parameter.ends_with(kGateUpWeight) || parameter.ends_with(kDownWeight);
}

std::map<std::string, StackedExperts> stacked_experts(const DecoderConfig& config) {
  std::map<std::string, StackedExperts> found;
  if (config.experts.num_experts == 0 || config.family.empty()) return found;
  for (const auto& layout : layouts_of(config)) {
    if (!found.empty()) break;
    for (const WeightPiece& piece : layout) {
      if (!is_weight_of_experts(piece.parameter) || !is_in_module(piece)) continue;
      StackedExperts& experts =
          found.try_emplace(piece.parameter, sizes_of(config, piece)).first->second;
      if (piece.begin >= experts.num_outputs * experts.num_inputs) continue;
      experts.rows.push_back(rows_of(piece, experts));
    }
  }
  return found;
}

}  // namespace packtrain
