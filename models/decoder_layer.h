// One pre-norm transformer layer: x + attention(norm(x)), then x + mlp(norm(x)).
#pragma once

#include <cstdint>
#include <memory>

#include "models/decoder_config.h"
#include "models/ops/rotary/rotary.h"
#include "models/recorded_block.h"

namespace packtrain {

class DecoderLayer final : public RecordedBlock {
 public:
  // `frequencies` are shared by all layers of a model. The last layer returns the supervised rows
  // alone [N, hidden], which are all that the head reads: its output projection and its MLP work on
  // these only.
  DecoderLayer(const DecoderConfig& config, std::int64_t index, RecomputePolicy policy,
               std::vector<ParameterSpec> parameters,
               std::shared_ptr<const RotaryFrequencies> frequencies);

 protected:
  Value record(OperatorTape& tape, const DeviceBatch& batch, Value x) const override;

 private:
  struct Weights;
  Weights weights(std::span<const Parameter> parameters) const;
  Value attend(OperatorTape& tape, const Weights& weights, const DeviceBatch& batch, Value x) const;

  DecoderConfig config_;
  std::int64_t index_;
  bool last_;
  std::shared_ptr<const RotaryFrequencies> frequencies_;
};

}  // namespace packtrain
