#include "models/embedding_block.h"

#include <ATen/core/grad_mode.h>

#include <utility>

#include "models/batch.h"
#include "models/ops/embedding/embedding.h"

namespace packtrain {

EmbeddingBlock::EmbeddingBlock(std::vector<ParameterSpec> parameters)
    : parameters_(std::move(parameters)) {}

BlockOutput EmbeddingBlock::forward(std::span<const Parameter> parameters, const DeviceBatch& batch,
                                    const at::Tensor& /*x*/, bool training) const {
  const at::NoGradGuard no_grad;
  // The ids in the batch are all that backward needs: the tape is empty.
  return {embedding_forward(batch.input_ids, parameters[0]),
          training ? std::make_unique<Tape>() : nullptr};
}

at::Tensor EmbeddingBlock::backward(std::span<const Parameter> parameters, const DeviceBatch& batch,
                                    std::unique_ptr<Tape> /*tape*/,
                                    const at::Tensor& grad_output) const {
  const at::NoGradGuard no_grad;
  embedding_backward(grad_output, batch.input_ids, parameters[0]);
  return {};
}

}  // namespace packtrain
