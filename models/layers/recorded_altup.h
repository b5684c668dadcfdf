// Alternating updates (ops/altup) on a layer's tape. Rows between layers are [rows, C H]: C copies
// of the hidden state.
#pragma once

#include <string>
#include <vector>

#include "models/block/operator_tape.h"
#include "models/layers/altup_config.h"
#include "models/layers/norm.h"
#include "models/ops/altup/altup.h"

namespace packtrain {

// The parameters of a layer. Both modalities of a layer have the same router.
struct AltUpParameters {
  ParameterId router_norm;
  ParameterId router;
  ParameterId prediction;
  ParameterId correction;
  ParameterId output_scale;
};

struct AltUpOptions {
  AltUpConfig config;
  NormConfig norm;  // of the router
  double standard_deviation = 0.02;
  bool trained = true;  // false: the router and the weights of coefficients have no gradients
};

// Declares NAME.router_norm.weight [H], NAME.router.weight [C, H], NAME.prediction.weight [C C, C],
// NAME.correction.weight [C, C] and NAME.output_scale [H], which is 0 at first.
AltUpParameters declare_altup(OperatorTape& tape, const std::string& name, const AltUpShape& shape,
                              const AltUpOptions& options);

// Returns [rows, C H]: x [rows, H], and each of the C - 1 `projections` of x with the magnitude of
// x.
Value altup_expand(OperatorTape& tape, const std::string& name, Value x,
                   const std::vector<Value>& projections);
// Returns [rows, H]: the mean of `first` and of the projections with the magnitude of `first`.
Value altup_merge(OperatorTape& tape, const std::string& name, Value first,
                  const std::vector<Value>& projections);

// The predictions of all copies from the rows [rows, C H].
Value altup_predict(OperatorTape& tape, const std::string& name, Value rows,
                    const AltUpParameters& parameters, const AltUpShape& shape,
                    const AltUpOptions& options);
// All copies from their predictions and from the active copy after the layer. It is the first in
// backward to write the gradients of the router, so a layer has one of it and one altup_predict().
// Its backward works in the memory of its gradient. So an altup_copy() of its output must be the
// next operator, whose backward makes this memory.
Value altup_correct(OperatorTape& tape, const std::string& name, Value predictions, Value activated,
                    const AltUpParameters& parameters, const AltUpShape& shape,
                    const AltUpOptions& options);

// Who has the tensor of the gradient of `rows` before the backward of altup_copy().
enum class GradientMemory {
  kShared,  // perhaps another value or the caller: backward copies it
  kOwn      // none other: backward adds to it
};

// Each copy [rows, H], named NAME.0 to NAME.(C-1). All of them must be read. One operator makes
// them, so that a recomputation makes `rows` once.
std::vector<Value> altup_copies(OperatorTape& tape, const std::string& name, Value rows,
                                const AltUpShape& shape);
// One copy [rows, H]. An operator after it must read `rows` too.
Value altup_copy(OperatorTape& tape, const std::string& name, Value rows, const AltUpShape& shape,
                 std::int64_t index, GradientMemory memory);
// x [rows, H] times the parameter [H].
Value multiply_rows(OperatorTape& tape, const std::string& name, Value x, ParameterId scale);
// Adds `branch` [rows, H] to all copies but the first.
Value altup_spread(OperatorTape& tape, const std::string& name, Value rows, Value branch,
                   const AltUpShape& shape);
}  // namespace packtrain
