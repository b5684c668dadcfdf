#include "models/decoder/layer_inputs.h"

#include <ATen/ops/mul.h>

#include <cmath>
#include <numbers>
#include <utility>

#include "models/block/batch.h"
#include "models/layers/declared_parameters.h"
#include "models/ops/embedding/embedding.h"
#include "models/ops/linear/linear.h"

namespace packtrain {
namespace {

constexpr double kSumMultiplier = 1 / std::numbers::sqrt2;  // of projection and embedding

}  // namespace

LayerInputs::LayerInputs(const DecoderConfig& config)
    : width_(config.layer_input_width),
      num_layers_(config.num_layers),
      num_rows_(config.layer_input_vocab),
      projection_multiplier_(1 / std::sqrt(static_cast<double>(config.hidden_size))),
      norm_(config.norm) {}

at::Tensor LayerInputs::known_ids(const at::Tensor& ids) const {
  return num_rows_ == 0 ? ids : at::mul(ids, ids.lt(num_rows_));
}

at::Tensor LayerInputs::project(const Parameter& weight, const BlockContext& context,
                                const at::Tensor& embedded) const {
  at::Tensor rows = linear_forward(embedded, weight, nullptr, context.options.gemm_timing);
  return rows.mul_(projection_multiplier_).view({embedded.size(0) * num_layers_, width_});
}

void LayerInputs::forward(std::span<const Parameter> parameters, const BlockContext& context,
                          const at::Tensor& embedded) const {
  const NormWeights weights{&parameters[2], nullptr};
  const at::Tensor normed =
      norm_forward(project(parameters[1], context, embedded), weights, norm_).y;
  at::Tensor rows = embedding_forward(known_ids(context.batch.input_ids), parameters[0]);
  rows.mul_(std::sqrt(static_cast<double>(width_)));
  rows.add_(normed.view(rows.sizes())).mul_(kSumMultiplier);
  context.batch.state.layer_inputs = {std::move(rows), {}};
}

at::Tensor LayerInputs::backward(std::span<const Parameter> parameters, const BlockContext& context,
                                 const at::Tensor& embedded,
                                 const at::Tensor& grad_embedded) const {
  const SharedRows inputs = std::exchange(context.batch.state.layer_inputs, {});
  const at::Tensor grad = at::mul(inputs.gradient, kSumMultiplier);
  if (parameters[0].grad.defined()) {
    embedding_backward(at::mul(grad, std::sqrt(static_cast<double>(width_))),
                       known_ids(context.batch.input_ids), parameters[0]);
  }
  const NormWeights weights{&parameters[2], nullptr};
  const at::Tensor projected = project(parameters[1], context, embedded);
  const NormOutput again = norm_forward(projected, weights, norm_);
  at::Tensor of_rows =
      norm_backward(grad.view(projected.sizes()), projected, again.statistics, weights, norm_);
  of_rows = of_rows.mul_(projection_multiplier_).view(grad.sizes());
  const GemmTiming& timing = context.options.gemm_timing;
  linear_backward_weight(of_rows, embedded, parameters[1], nullptr, timing);
  return linear_backward_input(of_rows, parameters[1], timing, grad_embedded);
}

void declare_layer_inputs(OperatorTape& tape, const DecoderConfig& config) {
  const std::int64_t width = config.layer_inputs_width();
  declare_weight(tape, "per_layer_embed.weight", {config.num_layer_input_rows(), width},
                 config.initializer_range);
  declare_weight(tape, "per_layer_projection.weight", {width, config.hidden_size},
                 config.initializer_range);
  declare_scale(tape, "per_layer_norm.weight", {config.layer_input_width},
                config.norm.weight_offset);
}

}  // namespace packtrain
