#include "models/decoder/embedding_block.h"

#include <ATen/core/grad_mode.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/mul.h>

#include <span>
#include <utility>

#include "models/block/batch.h"
#include "models/ops/embedding/embedding.h"
#include "models/ops/gradient.h"
#include "models/ops/linear/lora.h"

namespace packtrain {

namespace {

// s of the embedding's low-rank update (models/ops/linear/lora.h): A is [rank, V], and its columns
// are looked up.
at::Tensor embed_update(const at::Tensor& ids, const Parameter& a, const LoraModules& modules) {
  const at::Tensor s = a.value.index_select(1, ids).t().contiguous();
  scale_modules(s, modules);
  return s;
}

void write_embedded_a(const at::Tensor& grad_s, const at::Tensor& ids, const Parameter& a) {
  Parameter rows{a.value.t(), {}, false};
  rows.grad = at::empty(rows.value.sizes(), a.grad.options());
  embedding_backward(grad_s, ids, rows);
  write_gradient(a, rows.grad.t());
}

// Examples are no longer than the positions (check_learned_positions()), but pads may be.
at::Tensor known_positions(const DeviceBatch& batch, std::int64_t num_positions) {
  return batch.position_ids.clamp_max(num_positions - 1);
}

}  // namespace

EmbeddingBlock::EmbeddingBlock(std::vector<ParameterSpec> parameters, const DecoderConfig& config)
    : parameters_(std::move(parameters)),
      multiplier_(config.embedding_multiplier),
      num_positions_(config.learned_positions ? config.max_positions : 0),
      lora_(config.lora_of("embed.weight")),
      layer_inputs_(config) {}

at::Tensor EmbeddingBlock::embed(std::span<const Parameter> parameters,
                                 const BlockContext& context) const {
  const at::Tensor& ids = context.batch.input_ids;
  at::Tensor y = embedding_forward(ids, parameters[0]);
  if (lora_ != nullptr && !context.batch.without_adapter) {
    const Parameter* b = &parameters[2];
    lora_forward(y, embed_update(ids, parameters[1], *lora_), *lora_, std::span(&b, 1),
                 context.options.gemm_timing);
  }
  if (multiplier_ != 1.0) y.mul_(multiplier_);
  return y;
}

BlockOutput EmbeddingBlock::forward(std::span<const Parameter> parameters,
                                    const BlockContext& context, const at::Tensor& /*x*/) const {
  const at::NoGradGuard no_grad;
  context.batch.state.forget_shared_rows();
  at::Tensor y = embed(parameters, context);
  if (layer_inputs_.exist()) layer_inputs_.forward(of_layer_inputs(parameters), context, y);
  if (num_positions_ > 0) {
    y.add_(embedding_forward(known_positions(context.batch, num_positions_), parameters.back()));
  }
  // Backward needs only the ids, which are in the batch, so the tape is empty.
  return {std::move(y), context.mode == BlockMode::kTrain ? std::make_unique<Tape>() : nullptr};
}

at::Tensor EmbeddingBlock::backward(std::span<const Parameter> parameters,
                                    const BlockContext& context, std::unique_ptr<Tape> /*tape*/,
                                    const at::Tensor& grad_output) const {
  const at::NoGradGuard no_grad;
  if (num_positions_ > 0 && parameters.back().grad.defined()) {
    embedding_backward(grad_output, known_positions(context.batch, num_positions_),
                       parameters.back());
  }
  const at::Tensor& ids = context.batch.input_ids;
  at::Tensor grad = grad_output;
  if (layer_inputs_.exist()) {
    // Cheaper to compute again than to save.
    const at::Tensor embedded = embed(parameters, context);
    grad = layer_inputs_.backward(of_layer_inputs(parameters), context, embedded, grad);
  }
  context.batch.state.forget_shared_rows();
  if (multiplier_ != 1.0) grad = at::mul(grad, multiplier_);
  if (parameters[0].grad.defined()) embedding_backward(grad, ids, parameters[0]);
  if (lora_ != nullptr) {
    const Parameter* b = &parameters[2];
    const GemmTiming& timing = context.options.gemm_timing;
    const at::Tensor s = embed_update(ids, parameters[1], *lora_);
    lora_backward_weight(grad, s, *lora_, std::span(&b, 1), timing);
    const at::Tensor grad_s = lora_backward_input(grad, *lora_, std::span(&b, 1), timing);
    scale_modules(grad_s, *lora_);
    write_embedded_a(grad_s, ids, parameters[1]);
  }
  return {};
}

}  // namespace packtrain
