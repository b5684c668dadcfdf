// A mixture of experts as a layer uses it (recorded_operators.h): the operators of
// models/ops/experts on the block's tape. Rows are copied for each of their experts on the way and
// the copies never kept; what stays besides the projections and activations of k rows a row is a
// few numbers of each.
#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "models/decoder_config.h"
#include "models/operator_tape.h"
#include "models/ops/experts/expert_linear.h"
#include "models/ops/experts/routing.h"

namespace packtrain {

struct DeviceBatch;

struct ExpertsWeights {
  const Parameter* router = nullptr;
  const Parameter* router_bias = nullptr;  // or null
  ExpertProjection up;                     // gate and up, merged
  ExpertProjection down;
};

struct ExpertsOptions {
  ExpertsConfig experts;
  Activation activation;
  std::int64_t layer = 0;  // among those with experts
  std::int64_t num_layers = 1;
  // Whether x has all rows of the batch, or the supervised ones alone.
  bool all_rows = true;
};

RoutingOptions routing_options(const ExpertsConfig& config);

// sum over a row's k experts of weight * expert(x) [+ residual]. Writes down how the rows were
// spread (models/routing_statistics.h) and sends the auxiliary loss's gradient back with the rest.
Value experts(OperatorTape& tape, const std::string& name, Value x, const ExpertsWeights& weights,
              const ExpertsOptions& options, const DeviceBatch& batch,
              std::optional<Value> residual = std::nullopt);

// logistic(x w) * y [+ residual]; w [1, H].
Value shared_expert_gate(OperatorTape& tape, std::string_view name, Value x, Value y,
                         const Parameter& weight, std::optional<Value> residual = std::nullopt);

}  // namespace packtrain
