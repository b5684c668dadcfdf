// The low-rank update that one adapter makes to a linear layer, as the layer's operators read it.
#pragma once

#include <memory>
#include <vector>

#include "models/block/operator_context.h"
#include "models/block/operator_tape.h"
#include "models/ops/linear/lora_linear.h"
#include "models/ops/linear/lora_module.h"

namespace packtrain {

// The products with A of all modules.
struct LoraA {
  ParameterId a;
  std::shared_ptr<const LoraModules> modules;
  double probability = 0;  // of dropout, where the batch has row seeds
  bool selected = false;   // x has the supervised rows alone

  LoraDropout dropout(const OperatorContext& run) const {
    const DeviceBatch& batch = run.batch();
    if (probability == 0 || !batch.row_seeds.defined()) return {};
    return {selected ? batch.row_seeds.index_select(0, batch.loss_index) : batch.row_seeds,
            probability};
  }
};

// The parameters of the update of a weight, and s = scale x A^T, which its output adds.
struct LowRankUpdate {
  LoraA a;
  std::vector<ParameterId> b;
  std::vector<ParameterId> magnitudes;  // of each module, with DoRA alone
  Value s;

  const LoraModules& modules() const { return *a.modules; }
  bool has_magnitudes() const { return !magnitudes.empty(); }
};

inline std::vector<const Parameter*> parameters_of(const OperatorContext& run,
                                                   const std::vector<ParameterId>& ids) {
  std::vector<const Parameter*> parameters;
  for (const ParameterId id : ids) parameters.push_back(&run.parameter(id));
  return parameters;
}

}  // namespace packtrain
