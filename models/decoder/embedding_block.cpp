#include "models/decoder/embedding_block.h"

#include <ATen/core/grad_mode.h>
#include <ATen/ops/mul.h>

#include <utility>

#include "models/block/batch.h"
#include "models/ops/embedding/embedding.h"

namespace packtrain {

EmbeddingBlock::EmbeddingBlock(std::vector<ParameterSpec> parameters, double multiplier)
    : parameters_(std::move(parameters)), multiplier_(multiplier) {}

BlockOutput EmbeddingBlock::forward(std::span<const Parameter> parameters,
                                    const BlockContext& context, const at::Tensor& /*x*/) const {
  const at::NoGradGuard no_grad;
  at::Tensor y = embedding_forward(context.batch.input_ids, parameters[0]);
  if (multiplier_ != 1.0) y.mul_(multiplier_);
  // Backward needs only the ids, which are in the batch, so the tape is empty.
  return {std::move(y), context.mode == BlockMode::kTrain ? std::make_unique<Tape>() : nullptr};
}

at::Tensor EmbeddingBlock::backward(std::span<const Parameter> parameters,
                                    const BlockContext& context, std::unique_ptr<Tape> /*tape*/,
                                    const at::Tensor& grad_output) const {
  const at::NoGradGuard no_grad;
  const at::Tensor grad = multiplier_ == 1.0 ? grad_output : at::mul(grad_output, multiplier_);
  embedding_backward(grad, context.batch.input_ids, parameters[0]);
  return {};
}

}  // namespace packtrain
