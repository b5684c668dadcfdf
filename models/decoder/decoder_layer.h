// One transformer layer as a block that runs: the operators of layer_operators.h.
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "models/block/recorded_block.h"
#include "models/decoder/layer_operators.h"

namespace packtrain {

class DecoderLayer final : public RecordedBlock {
 public:
  // `parameters`: layer_parameters(config, index).
  DecoderLayer(const DecoderConfig& config, std::int64_t index, RecomputeByRows policies,
               std::vector<ParameterSpec> parameters,
               std::shared_ptr<const RotaryFrequencies> frequencies);

 protected:
  Value record(OperatorTape& tape, Value x) const override { return operators_.record(tape, x); }

 private:
  LayerOperators operators_;
};

}  // namespace packtrain
