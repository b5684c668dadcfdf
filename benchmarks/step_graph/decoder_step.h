// A decoder with weights, gradients and optimizer state on one GPU. A training step runs block by
// block, as on a single rank.
#pragma once

#include <ATen/core/Tensor.h>

#include <map>
#include <memory>
#include <string>
#include <vector>

#include "models/block/batch.h"
#include "models/block/block.h"
#include "models/layers/decoder_config.h"
#include "training/optimizers/adamw.h"

namespace packtrain {

class DecoderStep {
 public:
  // Random weights in bfloat16, gradients in bfloat16, master weights and moments in float32.
  explicit DecoderStep(const DecoderConfig& config);

  // Returns the loss, float32 []; the gradient is in gradient(). On the current stream.
  at::Tensor forward_backward(DeviceBatch& batch) const;
  // Norm, clipping and AdamW at learning rate 0: weights stay, so that steps can be repeated.
  void update(const at::Tensor& loss);

  const at::Tensor& gradient() const { return gradient_; }  // bfloat16, of all parameters

 private:
  std::vector<std::unique_ptr<Block>> blocks_;
  OperatorOptions options_;
  std::vector<std::vector<Parameter>> parameters_;  // of each block
  at::Tensor weight_;
  at::Tensor gradient_;
  AdamWTensors optimizer_;
};

}  // namespace packtrain
