// Parameters as operators declare them on a tape.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "models/block/operator_tape.h"
#include "models/layers/norm.h"
#include "models/ops/linear/lora_module.h"

namespace packtrain {

class OperatorContext;

// A matrix [out, in], or several, with normal initial values.
ParameterId declare_weight(OperatorTape& tape, std::string name, std::vector<std::int64_t> shape,
                           double standard_deviation);
// `exists` is false for an operator without the bias, which then declares none.
ParameterId declare_bias(OperatorTape& tape, std::string name, std::vector<std::int64_t> shape,
                         bool exists);
// The weight of a norm. Its initial values give a scale of 1.
ParameterId declare_scale(OperatorTape& tape, std::string name, std::vector<std::int64_t> shape,
                          double weight_offset);

// The A matrices of a weight's modules, one after another: [total rank, in], named NAME.lora_A.
ParameterId declare_lora_a(OperatorTape& tape, const std::string& name, const LoraModules& modules,
                           std::int64_t in);
// [rows, rank], named NAME.MODULE.lora_B.
ParameterId declare_lora_b(OperatorTape& tape, const std::string& name, const LoraModule& module);

struct NormParameters {
  ParameterId weight;
  ParameterId bias;

  NormWeights of(const OperatorContext& run) const;
};

// Those of a norm of rows of `width` elements.
NormParameters declare_norm(OperatorTape& tape, const std::string& name, std::int64_t width,
                            const NormConfig& config);

}  // namespace packtrain
