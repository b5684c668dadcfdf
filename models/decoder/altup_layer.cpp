// A decoder layer with alternating updates and a learned augmented residual (Gemma 3n). Its
// branches compute on the active copy of the hidden state. Then small products update all copies.
#include <fmt/format.h>

#include <string>
#include <vector>

#include "models/decoder/layer_operators.h"
#include "models/layers/recorded_altup.h"
#include "models/layers/recorded_laurel.h"
#include "models/layers/recorded_operators.h"

namespace packtrain {
namespace {

AltUpShape altup_shape(const DecoderConfig& config) {
  return {config.altup.num_copies, config.hidden_size, config.altup.active};
}

}  // namespace

Value LayerOperators::expand_copies(OperatorTape& tape, Value x) const {
  std::vector<Value> projections;
  for (std::int64_t copy = 1; copy < config_.altup.num_copies; ++copy) {
    projections.push_back(
        project(tape, fmt::format("altup.expand.{}", copy), x, config_.hidden_size, false));
  }
  return altup_expand(tape, "altup.copies", x, projections);
}

Value LayerOperators::merge_copies(OperatorTape& tape, Value rows) const {
  const std::vector<Value> copies = altup_copies(tape, "altup.copy", rows, altup_shape(config_));
  std::vector<Value> projections;
  for (std::size_t copy = 1; copy < copies.size(); ++copy) {
    projections.push_back(project(tape, fmt::format("altup.merge.{}", copy), copies[copy],
                                  config_.hidden_size, false));
  }
  return altup_merge(tape, "altup.mean", copies.front(), projections);
}

LayerOperators::ActiveRows LayerOperators::select_active(OperatorTape& tape,
                                                         const ActiveRows& rows) const {
  return {select_supervised_rows(tape, "altup.predictions.supervised", rows.predictions),
          select_supervised_rows(tape, "altup.active.supervised", rows.active),
          select_supervised_rows(tape, "attention_norm.supervised", rows.normed),
          select_supervised_rows(tape, "attention.supervised", rows.mixed)};
}

Value LayerOperators::activate(OperatorTape& tape, const ActiveRows& rows) const {
  const Value attended = project_mixed(tape, rows.mixed, std::nullopt);
  const Value attention = norm(tape, "attention_post_norm", attended, config_.norm);
  const Value low = project(tape, "laurel.left", rows.normed, config_.altup.laurel_rank, false);
  const Value high = project(tape, "laurel.right", low, config_.hidden_size, false);
  const Value laurel = norm(tape, "laurel_post_norm", high, config_.norm);
  const Value stream =
      laurel_sum(tape, "attention.sum", rows.active, {attention, rows.normed, laurel});
  const Value output = mlp(tape, norm_before(tape, "mlp_norm", stream), std::nullopt);
  return add(tape, "mlp.sum", stream, norm(tape, "mlp_post_norm", output, config_.norm));
}

Value LayerOperators::record_altup(OperatorTape& tape, Value x) const {
  const AltUpShape shape = altup_shape(config_);
  const AltUpOptions options{config_.altup, config_.norm, config_.initializer_range,
                             config_.is_trained(weight_name("altup.router"))};
  const bool is_last = index_ + 1 == config_.num_layers;
  const Value copies = index_ == 0 ? expand_copies(tape, x) : x;
  const AltUpParameters parameters = declare_altup(tape, "altup", shape, options);
  ActiveRows rows;
  rows.predictions = altup_predict(tape, "altup.predictions", copies, parameters, shape, options);
  rows.active =
      altup_copy(tape, "altup.active", rows.predictions, shape, shape.active, GradientMemory::kOwn);
  rows.normed = norm_before(tape, "attention_norm", rows.active);
  rows.mixed = mix(tape, rows.normed);
  if (is_last && tape.num_supervised_rows() < tape.num_rows()) rows = select_active(tape, rows);
  const Value activated = activate(tape, rows);
  const Value corrected = altup_correct(tape, "altup.corrected", rows.predictions, activated,
                                        parameters, shape, options);
  const Value active = altup_copy(tape, "altup.corrected_active", corrected, shape, shape.active,
                                  GradientMemory::kShared);
  const Value scaled = multiply_rows(tape, "altup.scaled", active, parameters.output_scale);
  const Value branch = layer_input_branch(tape, scaled);
  const Value y = altup_spread(tape, "altup.sum", corrected, branch, shape);
  return is_last ? merge_copies(tape, y) : y;
}

}  // namespace packtrain
