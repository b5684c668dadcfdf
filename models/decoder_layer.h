// One pre-norm transformer layer: x + attention(norm(x)), then x + mlp(norm(x)).
#pragma once

#include <cstdint>
#include <memory>

#include "models/autograd_block.h"
#include "models/decoder_config.h"
#include "models/ops/rotary/rotary.h"

namespace packtrain {

class DecoderLayer final : public AutogradBlock {
 public:
  // `frequencies` are shared by all layers of a model.
  DecoderLayer(const DecoderConfig& config, std::int64_t index, bool recompute,
               std::vector<ParameterSpec> parameters,
               std::shared_ptr<const RotaryFrequencies> frequencies);

 protected:
  at::Tensor compute(std::span<const Parameter> parameters, const DeviceBatch& batch,
                     const at::Tensor& x) const override;

 private:
  struct Weights;
  Weights weights(std::span<const Parameter> parameters) const;
  at::Tensor attend(const Weights& weights, const DeviceBatch& batch, const at::Tensor& x) const;

  DecoderConfig config_;
  std::shared_ptr<const RotaryFrequencies> frequencies_;
};

}  // namespace packtrain
