#include "models/layers/declared_parameters.h"

#include <utility>

#include "models/block/operator_context.h"
#include "models/layers/adapter_targets.h"

namespace packtrain {
namespace {

using Kind = Initialization::Kind;

ParameterId declare_in_adapter(OperatorTape& tape, std::string name,
                               std::vector<std::int64_t> shape, int number = 0) {
  ParameterSpec spec{std::move(name), std::move(shape)};
  spec.in_adapter = true;
  spec.adapter = number;
  return tape.parameter(spec);
}

std::string name_of_b(const std::string& name, const LoraModule& module) {
  return name + "." + module.leaf() + ".lora_B";
}

}  // namespace

ParameterId declare_weight(OperatorTape& tape, std::string name, std::vector<std::int64_t> shape,
                           double standard_deviation) {
  return tape.parameter({std::move(name), std::move(shape), {Kind::kNormal, standard_deviation}});
}

ParameterId declare_decodable_weight(OperatorTape& tape, std::string name,
                                     std::vector<std::int64_t> shape, double standard_deviation,
                                     bool in_fp8) {
  ParameterSpec spec{std::move(name), std::move(shape), {Kind::kNormal, standard_deviation}};
  spec.decodable = true;
  spec.in_fp8 = in_fp8;
  return tape.parameter(spec);
}

ParameterId declare_bias(OperatorTape& tape, std::string name, std::vector<std::int64_t> shape,
                         bool exists) {
  if (!exists) return {};
  return tape.parameter(
      {std::move(name), std::move(shape), {Kind::kZeros, 0.0}, OptimizerGroup::kNoDecay});
}

ParameterId declare_constant(OperatorTape& tape, std::string name,
                             std::vector<std::int64_t> shape) {
  ParameterSpec spec{
      std::move(name), std::move(shape), {Kind::kZeros, 0.0}, OptimizerGroup::kNoDecay};
  spec.trainable = false;
  spec.keep_float32 = true;
  return tape.parameter(spec);
}

ParameterId declare_head_numbers(OperatorTape& tape, std::string name, std::int64_t num_heads,
                                 const Initialization& initialization) {
  ParameterSpec spec{std::move(name), {num_heads}, initialization, OptimizerGroup::kNoDecay};
  spec.keep_float32 = true;
  return tape.parameter(spec);
}

// The effective weight starts at 1. A weight that is added to the offset 1 therefore starts at 0.
ParameterId declare_scale(OperatorTape& tape, std::string name, std::vector<std::int64_t> shape,
                          double weight_offset) {
  const Kind kind = weight_offset == 0 ? Kind::kOnes : Kind::kZeros;
  return tape.parameter({std::move(name), std::move(shape), {kind, 0.0}, OptimizerGroup::kNoDecay});
}

LoraParameters declare_lora(OperatorTape& tape, const std::string& name, const LoraModules& modules,
                            std::int64_t in, const std::string& adapter, int number) {
  LoraParameters parameters;
  const std::string ending = name_ending(adapter);
  parameters.a =
      declare_in_adapter(tape, name + ".lora_A" + ending, {total_rank(modules), in}, number);
  for (const LoraModule& module : modules) {
    parameters.b.push_back(declare_in_adapter(tape, name_of_b(name, module) + ending,
                                              {module.num_rows, module.rank}, number));
  }
  return parameters;
}

std::vector<ParameterId> declare_magnitudes(OperatorTape& tape, const std::string& name,
                                            const LoraModules& modules,
                                            const std::string& adapter) {
  std::vector<ParameterId> magnitudes;
  for (const LoraModule& module : modules) {
    ParameterSpec spec{
        .name = name + "." + module.leaf() + ".lora_magnitude_vector" + name_ending(adapter),
        .shape = {module.num_rows},
        .initialization = {Kind::kOnes, 0.0},
        .group = OptimizerGroup::kNoDecay};
    spec.in_adapter = true;
    spec.keep_float32 = true;
    magnitudes.push_back(tape.parameter(spec));
  }
  return magnitudes;
}

LoraParameters declare_expert_lora(OperatorTape& tape, const std::string& name,
                                   const LoraModule& module, std::int64_t num_experts,
                                   std::int64_t in) {
  LoraParameters parameters;
  parameters.a = declare_in_adapter(tape, name + ".lora_A", {num_experts, module.rank, in});
  parameters.b.push_back(declare_in_adapter(tape, name_of_b(name, module),
                                            {num_experts, module.num_rows, module.rank}));
  return parameters;
}

NormWeights NormParameters::of(const OperatorContext& run) const {
  return {run.find(weight), run.find(bias)};
}

NormParameters declare_norm(OperatorTape& tape, const std::string& name, std::int64_t width,
                            const NormConfig& config) {
  NormParameters parameters;
  if (config.has_weight) {
    parameters.weight = declare_scale(tape, name + ".weight", {width}, config.weight_offset);
  }
  parameters.bias = declare_bias(tape, name + ".bias", {width}, config.has_bias);
  return parameters;
}

}  // namespace packtrain
