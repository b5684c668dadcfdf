#include "models/adapters/adapter_weights.h"

#include <algorithm>

#include "framework/core/error.h"
#include "models/families/family.h"
#include "models/families/stacked_experts.h"

namespace packtrain {
namespace {

constexpr const char* kEmbeddingWeight = "embed.weight";
constexpr const char* kInitialPrefix = "initial.";
constexpr const char* kMagnitude = ".lora_magnitude_vector";

std::string stem_of(const std::string& weight) {
  return weight.substr(0, weight.rfind('.'));
}

// The piece of a tensor [inputs, outputs] as one of the transposed tensor.
WeightPiece with_rows_of_outputs(WeightPiece piece) {
  const bool is_transposed = piece.hf_shape.size() == 2 && piece.hf_column_stride != 1 &&
                             piece.hf_column_stride == piece.hf_shape.back() &&
                             piece.columns == piece.hf_shape.front();
  if (!is_transposed) return piece;
  std::ranges::reverse(piece.hf_shape);
  piece.hf_begin *= piece.columns;
  piece.hf_row_stride *= piece.columns;
  piece.hf_column_stride = 1;
  return piece;
}

// The pieces of one tensor in one parameter, in the order of the parameter's elements.
std::vector<WeightPiece> pieces_of(const std::vector<WeightPiece>& all,
                                   const std::string& parameter, const std::string& tensor) {
  std::vector<WeightPiece> pieces;
  std::ranges::copy_if(all, std::back_inserter(pieces), [&](const WeightPiece& piece) {
    return piece.parameter == parameter && piece.hf_name == tensor;
  });
  std::ranges::sort(pieces, {}, &WeightPiece::begin);
  std::ranges::transform(pieces, pieces.begin(), with_rows_of_outputs);
  return pieces;
}

// Throws unless the piece has whole rows [inputs] of the module's matrix.
void check_rows(const WeightPiece& piece, const LoraModule& module, std::int64_t inputs) {
  const bool is_whole = piece.hf_shape == std::vector<std::int64_t>{module.num_rows, inputs} &&
                        piece.hf_column_stride == 1 && piece.columns % inputs == 0 &&
                        piece.hf_begin % inputs == 0 && piece.hf_row_stride % inputs == 0;
  if (is_whole) return;
  throw Error(ErrorCategory::kInternal,
              "'" + piece.hf_name + "' has no whole rows of '" + piece.parameter + "'");
}

// A tensor that has rows of `width` elements where the module's weight has rows of `inputs`.
struct RowsOfModule {
  std::string parameter;
  std::string tensor;
  std::vector<std::int64_t> shape;
  std::int64_t width = 1;
};

// Row for row as in the base weight.
void add_rows(WeightMap& map, const std::vector<WeightPiece>& base, const LoraModule& module,
              std::int64_t inputs, const RowsOfModule& rows) {
  for (const WeightPiece& piece : base) {
    check_rows(piece, module, inputs);
    map.strided(rows.parameter, rows.tensor, rows.shape,
                {.begin = piece.hf_begin / inputs * rows.width,
                 .rows = piece.rows,
                 .columns = piece.columns / inputs * rows.width,
                 .row_stride = piece.hf_row_stride / inputs * rows.width});
  }
}

// PEFT wraps a module's parameters one in another: gate_up_proj is inside of down_proj.
std::string tensors_of_experts(const std::string& weight, const LoraModule& module,
                               const AdapterTargets& targets) {
  const std::string container = module.name.substr(0, module.name.rfind('.'));
  const std::string own = stem_of(weight);
  const std::string down = own.substr(0, own.rfind('.')) + ".down.weight";
  const bool is_inside = weight != down && targets.find(down) != nullptr;
  return kPeftPrefix + container + (is_inside ? ".base_layer" : "");
}

// A [experts, rank, inputs] and B [experts, outputs, rank]. PEFT's A is [experts * rank, inputs],
// and its B [outputs, rank * experts] has the experts of one rank next to each other.
void add_experts(WeightMap& map, const StackedExperts& experts, const std::string& weight,
                 const LoraModule& module, const AdapterTargets& targets) {
  const std::string tensor = tensors_of_experts(weight, module, targets);
  const std::int64_t width = module.rank * experts.num_experts;
  map.whole(lora_a_name(weight), tensor + ".lora_A.weight", {width, experts.num_inputs});
  for (std::int64_t expert = 0; expert < experts.num_experts; ++expert) {
    for (const ExpertRows& rows : experts.rows) {
      map.strided(lora_b_name(weight, module), tensor + ".lora_B.weight",
                  {experts.num_outputs, width},
                  {.begin = rows.hf_begin * width + expert,
                   .rows = rows.num_rows,
                   .columns = module.rank,
                   .row_stride = rows.hf_stride * width,
                   .column_stride = experts.num_experts});
    }
  }
}

// A [rank, inputs] and B [outputs, rank] of one module of `weight`, the next rows of its lora_A,
// and its magnitudes [outputs].
void add_module(WeightMap& map, const std::vector<WeightPiece>& base, const std::string& weight,
                const LoraModule& module, const AdapterTargets& targets) {
  const std::string& adapter = targets.name;
  const auto pieces = pieces_of(base, weight, module.name + ".weight");
  if (pieces.empty()) {
    throw Error(ErrorCategory::kInternal, "'" + module.name + "' is not in '" + weight + "'");
  }
  const std::vector<std::int64_t>& shape = pieces.front().hf_shape;
  const std::string tensor = kPeftPrefix + module.name;
  if (weight == kEmbeddingWeight) {  // its rows are inputs
    map.whole(lora_a_name(weight, adapter), tensor + ".lora_embedding_A",
              {module.rank, shape.front()});
    map.whole(lora_b_name(weight, module, adapter), tensor + ".lora_embedding_B",
              {module.num_rows, module.rank});
    return;
  }
  map.whole(lora_a_name(weight, adapter), tensor + ".lora_A.weight", {module.rank, shape.back()});
  add_rows(map, pieces, module, shape.back(),
           {lora_b_name(weight, module, adapter),
            tensor + ".lora_B.weight",
            {module.num_rows, module.rank},
            module.rank});
  if (!targets.use_dora) return;
  add_rows(map, pieces, module, shape.back(),
           {magnitude_name(weight, module, adapter), tensor + kMagnitude, {module.num_rows}});
}

}  // namespace

std::string lora_a_name(const std::string& weight, const std::string& adapter) {
  return stem_of(weight) + ".lora_A" + name_ending(adapter);
}

std::string lora_b_name(const std::string& weight, const LoraModule& module,
                        const std::string& adapter) {
  return stem_of(weight) + "." + module.leaf() + ".lora_B" + name_ending(adapter);
}

std::string magnitude_name(const std::string& weight, const LoraModule& module,
                           const std::string& adapter) {
  return stem_of(weight) + "." + module.leaf() + kMagnitude + name_ending(adapter);
}

bool is_magnitude_name(const std::string& parameter) {
  return parameter.find(kMagnitude) != std::string::npos;
}

std::string initial_name(const std::string& parameter) {
  return kInitialPrefix + parameter;
}

bool is_initial_name(const std::string& name) {
  return name.starts_with(kInitialPrefix);
}

std::vector<WeightPiece> adapter_weights(const DecoderConfig& config) {
  const AdapterTargets& targets = *config.adapter;
  const std::vector<WeightPiece> base = module_weights(config);
  const auto experts = stacked_experts(config);
  WeightMap map;
  for (const auto& [weight, modules] : targets.weights) {
    for (const LoraModule& module : modules) {
      if (is_weight_of_experts(weight)) {
        add_experts(map, experts.at(weight), weight, module, targets);
      } else {
        add_module(map, base, weight, module, targets);
      }
    }
  }
  std::vector<WeightPiece> pieces = map.take();
  for (WeightPiece piece : base) {
    if (!targets.trained.contains(piece.parameter)) continue;
    piece.hf_name.insert(0, kPeftPrefix);
    pieces.push_back(std::move(piece));
  }
  return pieces;
}

}  // namespace packtrain
