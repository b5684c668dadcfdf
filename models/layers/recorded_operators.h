// The operators of models/ops as layers use them. Each one runs and is recorded on the block's tape
// with its backward. `name` labels the value in memory tables and traces. Parameters must be those
// of the tape. The batch must outlive the tape.
#pragma once

#include <ATen/core/Tensor.h>

#include <optional>
#include <string_view>

#include "models/block/operator_tape.h"
#include "models/layers/norm.h"
#include "models/ops/activation/activation.h"

namespace packtrain {

Value norm(OperatorTape& tape, std::string_view name, Value x, const NormWeights& weights,
           const NormConfig& config);

// The GEMM itself adds `residual`.
Value linear(OperatorTape& tape, std::string_view name, Value x, const Parameter& weight,
             const Parameter* bias, std::optional<Value> residual = std::nullopt);

Value activation(OperatorTape& tape, std::string_view name, Value x, const Activation& activation);

// x + scale y.
Value add(OperatorTape& tape, std::string_view name, Value x, Value y, double scale = 1.0);

// Rows rows[0], rows[1], ... of x [T, H]; rows int32 [N], distinct.
Value select_rows(OperatorTape& tape, std::string_view name, Value x, const at::Tensor& rows);

}  // namespace packtrain
