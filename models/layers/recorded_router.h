// The router of a mixture of experts (ops/experts/routing.h), recorded on the block's tape.
#pragma once

#include <string>

#include "models/block/operator_context.h"
#include "models/block/operator_tape.h"
#include "models/layers/recorded_experts.h"
#include "models/ops/experts/routing.h"
#include "models/ops/experts/token_permutation.h"

namespace packtrain {

// Recorded values of a routing.
struct RoutedValues {
  Value weights;
  Value choice;         // experts
  Value probabilities;  // without elements where not needed, as the logits
  Value logits;
  Value order;  // permuted rows
  Value ends;

  Routing routing(OperatorContext& run) const {
    return {run.get(weights), run.get(choice), run.get(probabilities), run.get(logits)};
  }
  TokenPermutation sorted(OperatorContext& run) const { return {run.get(order), run.get(ends)}; }
};

// Records the routing of rows x to experts, and its values NAME.router.* and NAME.order.
RoutedValues record_router(OperatorTape& tape, const std::string& name, Value x,
                           const ExpertsParameters& parameters, const ExpertsOptions& options);

// Multiplies the weights by a trained factor of each expert (ops/experts/expert_scale.h), and
// records them as NAME.router.scaled_weights.
Value scaled_weights(OperatorTape& tape, const std::string& name, const RoutedValues& routed,
                     ParameterId expert_scale);

}  // namespace packtrain
