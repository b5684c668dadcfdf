// A mixture of experts as layers use it: the operators of models/ops/experts recorded on the
// block's tape (recorded_operators.h). Rows are copied for each of their experts, and the copies
// are not saved. Saved are the projections and activations of k rows for each row, and a few
// numbers of each.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>

#include "models/block/operator_tape.h"
#include "models/layers/declared_parameters.h"
#include "models/layers/decoder_config.h"

namespace packtrain {

struct ExpertsOptions {
  ExpertsConfig experts;
  Activation activation;
  double standard_deviation = 0.02;  // of the initial weights
  std::int64_t layer = 0;            // index among the layers with experts
  std::int64_t num_layers = 1;
  bool router_trained = true;
  bool trained = true;  // false: the projections' own weights are frozen
  // The low-rank updates of the projections, of one module each. Null: none.
  std::shared_ptr<const LoraModules> up_lora = nullptr;
  std::shared_ptr<const LoraModules> down_lora = nullptr;
  // The products of rows have 8-bit operands, where there is no update
  // (ops/experts/expert_linear.h).
  bool up_in_fp8 = false;
  bool down_in_fp8 = false;
};

struct ExpertsParameters {
  ParameterId router;
  ParameterId router_bias;
  ParameterId choice_bias;  // constant
  ParameterId expert_scale;
  ParameterId up;  // gate and up, merged
  ParameterId up_bias;
  ParameterId down;
  ParameterId down_bias;
  LoraParameters up_lora;  // empty without an update
  LoraParameters down_lora;
};

// For rows of `width` elements and E experts of width J, declares NAME.router.weight [E, width],
// NAME.experts.gate_up.weight [E, 2 J, width] and NAME.experts.down.weight [E, width, J]. Each has
// a bias if the config has it, and a low-rank update (declare_expert_lora) if the options have it.
// A router may have NAME.router.choice_bias [E] and NAME.router.expert_scale [E] too.
ExpertsParameters declare_experts(OperatorTape& tape, const std::string& name, std::int64_t width,
                                  const ExpertsOptions& options);

// The rows that experts read, and those that the router reads, which may be others.
struct ExpertsInputs {
  Value rows;
  Value router_rows;
};

// Sum over a row's k experts of weight * expert(x) [+ residual]. Records the routing
// (models/layers/routing_statistics.h) and adds the gradient of the auxiliary loss in backward.
Value experts(OperatorTape& tape, const std::string& name, const ExpertsInputs& x,
              const ExpertsParameters& parameters, const ExpertsOptions& options,
              std::optional<Value> residual = std::nullopt);

// logistic(x w) * y [+ residual]. Declares NAME_gate.weight [1, H].
Value shared_expert_gate(OperatorTape& tape, const std::string& name, Value x, Value y,
                         double standard_deviation, std::optional<Value> residual = std::nullopt);

}  // namespace packtrain
