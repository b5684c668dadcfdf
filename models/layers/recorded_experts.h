// A mixture of experts as layers use it: the operators of models/ops/experts recorded on the
// block's tape (recorded_operators.h). Rows are copied for each of their experts, and the copies
// are not saved. Saved are the projections and activations of k rows for each row, and a few
// numbers of each.
#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "models/block/operator_tape.h"
#include "models/layers/decoder_config.h"
#include "models/ops/experts/expert_linear.h"
#include "models/ops/experts/routing.h"

namespace packtrain {

struct DeviceBatch;

struct ExpertsWeights {
  const Parameter* router = nullptr;
  const Parameter* router_bias = nullptr;  // may be null
  ExpertProjection up;                     // gate and up, merged
  ExpertProjection down;
};

struct ExpertsOptions {
  ExpertsConfig experts;
  Activation activation;
  std::int64_t layer = 0;  // index among the layers with experts
  std::int64_t num_layers = 1;
  // True when x has all rows of the batch, false when it has only the supervised ones.
  bool all_rows = true;
};

RoutingOptions routing_options(const ExpertsConfig& config);

// Sum over a row's k experts of weight * expert(x) [+ residual]. Records the routing
// (models/layers/routing_statistics.h) and adds the gradient of the auxiliary loss in backward.
Value experts(OperatorTape& tape, const std::string& name, Value x, const ExpertsWeights& weights,
              const ExpertsOptions& options, const DeviceBatch& batch,
              std::optional<Value> residual = std::nullopt);

// logistic(x w) * y [+ residual]; w [1, H].
Value shared_expert_gate(OperatorTape& tape, std::string_view name, Value x, Value y,
                         const Parameter& weight, std::optional<Value> residual = std::nullopt);

}  // namespace packtrain
