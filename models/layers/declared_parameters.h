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
// The same for an operator that decodes it (ops/encoded_weight.h). `in_fp8`: ParameterSpec::in_fp8.
ParameterId declare_decodable_weight(OperatorTape& tape, std::string name,
                                     std::vector<std::int64_t> shape, double standard_deviation,
                                     bool in_fp8 = false);
// `exists` is false for an operator without the bias, which then declares none.
ParameterId declare_bias(OperatorTape& tape, std::string name, std::vector<std::int64_t> shape,
                         bool exists);
// Float32 values in any model, zeros at first, which are not trained.
ParameterId declare_constant(OperatorTape& tape, std::string name, std::vector<std::int64_t> shape);
// One number for each head, float32 in any model: decays are exponentials of it.
ParameterId declare_head_numbers(OperatorTape& tape, std::string name, std::int64_t num_heads,
                                 const Initialization& initialization);
// The weight of a norm. Its initial values give a scale of 1.
ParameterId declare_scale(OperatorTape& tape, std::string name, std::vector<std::int64_t> shape,
                          double weight_offset);

// The low-rank update of the weight NAME.weight with `in` inputs. NAME.lora_A [total rank, in] has
// the A matrices of the modules one after another. NAME.MODULE.lora_B [rows, rank] is of one
// module. The name of the adapter follows, if it has one.
struct LoraParameters {
  ParameterId a;
  std::vector<ParameterId> b;  // one for each module
};

// `number`: of the adapter among several.
LoraParameters declare_lora(OperatorTape& tape, const std::string& name, const LoraModules& modules,
                            std::int64_t in, const std::string& adapter, int number = 0);

// The magnitudes of the rows of each module (DoRA): NAME.MODULE.lora_magnitude_vector [rows],
// float32 in any model. Weight decay is not for them, as for norms.
std::vector<ParameterId> declare_magnitudes(OperatorTape& tape, const std::string& name,
                                            const LoraModules& modules, const std::string& adapter);

// The low-rank update of the weight NAME.weight of all experts: NAME.lora_A [experts, rank, in] and
// NAME.MODULE.lora_B [experts, rows, rank].
LoraParameters declare_expert_lora(OperatorTape& tape, const std::string& name,
                                   const LoraModule& module, std::int64_t num_experts,
                                   std::int64_t in);

struct NormParameters {
  ParameterId weight;
  ParameterId bias;

  NormWeights of(const OperatorContext& run) const;
};

// Those of a norm of rows of `width` elements.
NormParameters declare_norm(OperatorTape& tape, const std::string& name, std::int64_t width,
                            const NormConfig& config);

}  // namespace packtrain
