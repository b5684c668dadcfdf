#include "models/layers/prepared_heads.h"

#include <ATen/ops/abs.h>
#include <ATen/ops/clamp.h>
#include <ATen/ops/ones.h>

#include <utility>

#include "models/layers/query_temperature.h"
#include "models/ops/qk_norm/row_qk_norm.h"

namespace packtrain {
namespace {

// Norm statistics of the heads of a row.
std::int64_t num_qk_statistics(const AttentionOptions& options) {
  if (options.shared.reads_keys()) return options.shape.num_heads;
  const std::int64_t of_values = options.shared.value_norm ? options.shape.num_kv_heads : 0;
  const std::int64_t num_heads = options.shape.num_heads + options.shape.num_kv_heads;
  switch (options.qk_norm) {
    case QkNormKind::kNone:
      return of_values;
    case QkNormKind::kFull:
      return 2 + of_values;
    case QkNormKind::kHeadLayer:
      return 2 * num_heads + of_values;
    case QkNormKind::kHead:
    case QkNormKind::kHeadUnit:
    case QkNormKind::kTurnedHead:
      break;
  }
  return num_heads + of_values;
}

}  // namespace

PreparedHeads::PreparedHeads(OperatorTape& tape, const std::string& name, Value qkv,
                             const AttentionParameters& parameters, const AttentionOptions& options)
    : parameters_(parameters),
      options_(options),
      num_heads_(options.shape.num_heads + 2 * options.shape.num_kv_heads),
      num_own_heads_(options.shared.num_projected_heads(options.shape)),
      is_normed_(options.qk_norm != QkNormKind::kNone),
      norms_heads_(options.qk_norm == QkNormKind::kHead ||
                   options.qk_norm == QkNormKind::kHeadUnit),
      norms_turned_(options.qk_norm == QkNormKind::kTurnedHead),
      shape_{tape.shape(qkv).num_rows, num_heads_ * options.shape.head_dim, tape.shape(qkv).dtype},
      qkv_(qkv),
      statistics_(tape.value(ValueKind::kStatistics, name + ".norm_statistics",
                             {shape_.num_rows, num_qk_statistics(options), c10::kFloat})),
      clipped_(tape.value(
          ValueKind::kProjection, name + ".clipped",
          {shape_.num_rows, is_clipped() && !is_normed_ ? shape_.width : 0, c10::kBool})),
      // Norms are cheap to recompute.
      rotated_(tape.value(is_normed_ ? ValueKind::kNormOutput : ValueKind::kProjection,
                          name + ".rotated_qkv", shape_)) {}

std::vector<Value> PreparedHeads::needs() const {
  std::vector<Value> needs = {rotated_};
  if (is_normed_) needs.push_back(qkv_);
  if (is_normed_ || options_.shared.value_norm) needs.push_back(statistics_);
  if (is_clipped() && !is_normed_) needs.push_back(clipped_);
  return needs;
}

void PreparedHeads::forward(OperatorContext& run) const {
  if (options_.shared.reads_keys()) return forward_queries(run);
  std::vector<at::Tensor> statistics;
  at::Tensor heads;
  if (is_normed_) {
    const at::Tensor projected = whole_heads(run);
    heads = normed(run, is_clipped() ? clip(projected) : projected, statistics);
  } else {
    heads = unnormed(run);
  }
  if (!norms_heads_ && !norms_turned_ && options_.rotates) {
    rotary_forward_(heads, run.batch().position_ids, frequencies(run), options_.rotary);
  }
  scale_queries_(heads.narrow(1, 0, options_.shape.num_heads), run.batch(), options_.temperature);
  if (options_.shared.value_norm) {
    statistics.push_back(norm_values_(heads, options_.shape, options_.norm.epsilon));
  }
  if (options_.shared.keeps_keys) keep_keys(heads, options_.shape, shared_rows(run));
  run.set(rotated_, std::move(heads));
  run.set_all(statistics_, std::move(statistics));
}

void PreparedHeads::backward(OperatorContext& run, HeadGradients grads) const {
  scale_queries_(grads.query, run.batch(), options_.temperature);
  if (options_.shared.reads_keys()) return backward_queries(run, grads);
  if (options_.shared.keeps_keys) add_readers(shared_rows(run), grads);
  if (options_.shared.value_norm) {
    grads.value = value_norm_backward(grads.value, run.get(rotated_),
                                      run.get_all(statistics_).back(), options_.shape);
  }
  const at::Tensor grad = is_normed_ ? norm_backward(run, grads) : rotary_back(run, grads);
  if (is_clipped()) {
    grad.masked_fill_(is_normed_ ? is_beyond(whole_heads(run)) : run.get(clipped_), 0);
  }
  const at::Tensor rows = rows_of(grad);
  if (!options_.gated) return run.set_gradient(qkv_, rows);
  const at::Tensor whole = run.gradient(qkv_);  // the gate's backward wrote its own columns
  whole.narrow(1, whole.size(1) - rows.size(1), rows.size(1)).copy_(rows);
}

at::Tensor PreparedHeads::frequencies(const OperatorContext& run) const {
  return options_.frequencies->of(run.batch());
}

Parameter PreparedHeads::unit_weight(const at::Tensor& heads) const {
  if (options_.qk_norm != QkNormKind::kHeadUnit) return {};
  return {at::ones({options_.shape.head_dim}, heads.options()), {}};
}

QkNorm PreparedHeads::norm(const OperatorContext& run, const Parameter& unit) const {
  if (unit.value.defined()) return {unit, unit, options_.shape.num_heads, options_.norm};
  return {run.parameter(parameters_.query_norm), run.parameter(parameters_.key_norm),
          options_.shape.num_heads, options_.norm};
}

QueryNorm PreparedHeads::query_norm(const OperatorContext& run) const {
  return {run.parameter(parameters_.query_norm), options_.norm, run.batch().position_ids,
          frequencies(run), options_.rotary};
}

at::Tensor PreparedHeads::by_head(const at::Tensor& rows) const {
  const std::int64_t width = num_own_heads_ * options_.shape.head_dim;
  return rows.narrow(1, rows.size(1) - width, width)
      .view({rows.size(0), num_own_heads_, options_.shape.head_dim});
}

at::Tensor PreparedHeads::whole_heads(OperatorContext& run) const {
  const at::Tensor heads = by_head(run.get(qkv_));
  return options_.shared.keys_as_values ? with_keys_as_values(heads, options_.shape) : heads;
}

at::Tensor PreparedHeads::rows_of(const at::Tensor& grad) const {
  const at::Tensor own =
      options_.shared.keys_as_values ? with_values_in_keys(grad, options_.shape) : grad;
  return own.view({own.size(0), num_own_heads_ * options_.shape.head_dim});
}

SharedRows& PreparedHeads::shared_rows(const OperatorContext& run) const {
  const SharedHeadsOptions& shared = options_.shared;
  return run.batch()
      .state.keys_and_values[shared.reads_keys() ? shared.keys_of_layer : shared.layer];
}

void PreparedHeads::forward_queries(OperatorContext& run) const {
  NormedQueries queries = query_norm_forward(by_head(run.get(qkv_)), query_norm(run));
  scale_queries_(queries.heads, run.batch(), options_.temperature);
  run.set(rotated_, with_shared_keys(queries.heads, shared_rows(run)));
  run.set_all(statistics_, {std::move(queries.inverse_rms)});
}

void PreparedHeads::backward_queries(OperatorContext& run, const HeadGradients& grads) const {
  add_reader(grads, shared_rows(run));
  const at::Tensor grad = query_norm_backward(grads.query, by_head(run.get(qkv_)),
                                              run.get_all(statistics_).at(0), query_norm(run));
  run.set_gradient(qkv_, grad.view({grad.size(0), -1}));
}

at::Tensor PreparedHeads::clip(const at::Tensor& heads) const {
  return at::clamp(heads, -options_.clip_qkv, options_.clip_qkv);
}

at::Tensor PreparedHeads::is_beyond(const at::Tensor& heads) const {
  return at::abs(heads).gt(options_.clip_qkv);
}

at::Tensor PreparedHeads::unnormed(OperatorContext& run) const {
  at::Tensor heads = whole_heads(run);
  if (options_.gated) {
    heads = heads.contiguous();  // the gate stays
  } else {
    run.release(qkv_);
  }
  if (is_clipped()) {
    run.set(clipped_, is_beyond(heads));
    heads.clamp_(-options_.clip_qkv, options_.clip_qkv);
  }
  return heads;
}

at::Tensor PreparedHeads::turned(const OperatorContext& run, const at::Tensor& heads) const {
  at::Tensor copy = heads.clone(at::MemoryFormat::Contiguous);
  if (options_.rotates) {
    rotary_forward_(copy, run.batch().position_ids, frequencies(run), options_.rotary);
  }
  return copy;
}

RotaryOptions PreparedHeads::no_rotary() const {
  return {.num_rotated_heads = options_.rotary.num_rotated_heads};
}

QkNormOutput PreparedHeads::turned_norm(const OperatorContext& run, const at::Tensor& heads,
                                        const Parameter& unit) const {
  return qk_norm_forward(turned(run, heads), norm(run, unit), run.batch().position_ids,
                         options_.no_frequencies->of(run.batch()), no_rotary());
}

at::Tensor PreparedHeads::normed(const OperatorContext& run, const at::Tensor& heads,
                                 std::vector<at::Tensor>& statistics) const {
  const Parameter unit = unit_weight(heads);
  if (norms_heads_ || norms_turned_) {
    QkNormOutput output = norms_turned_
                              ? turned_norm(run, heads, unit)
                              : qk_norm_forward(heads, norm(run, unit), run.batch().position_ids,
                                                frequencies(run), options_.rotary);
    statistics = {std::move(output.inverse_rms)};
    return output.qkv;
  }
  RowQkNormOutput output = options_.qk_norm == QkNormKind::kFull
                               ? full_qk_norm_forward(heads, norm(run, unit))
                               : head_layer_norm_forward(heads, norm(run, unit));
  statistics = std::move(output.statistics);
  return output.qkv;
}

at::Tensor PreparedHeads::rotary_back(const OperatorContext& run,
                                      const HeadGradients& grads) const {
  return rotary_backward(grads.query, grads.key, grads.value, run.batch().position_ids,
                         frequencies(run), options_.rotary);
}

at::Tensor PreparedHeads::turned_norm_backward(const OperatorContext& run,
                                               const HeadGradients& grads, const at::Tensor& heads,
                                               const at::Tensor& inverse_rms) const {
  const at::Tensor grad = qk_norm_backward(grads.query, grads.key, grads.value, turned(run, heads),
                                           inverse_rms, norm(run, {}), run.batch().position_ids,
                                           options_.no_frequencies->of(run.batch()), no_rotary());
  if (!options_.rotates) return grad;
  const std::int64_t queries = options_.shape.num_heads;
  const std::int64_t keys = options_.shape.num_kv_heads;
  return rotary_backward(grad.narrow(1, 0, queries), grad.narrow(1, queries, keys),
                         grad.narrow(1, queries + keys, keys), run.batch().position_ids,
                         frequencies(run), options_.rotary);
}

at::Tensor PreparedHeads::norm_backward(OperatorContext& run, const HeadGradients& grads) const {
  const at::Tensor projected = whole_heads(run);
  const at::Tensor heads = is_clipped() ? clip(projected) : projected;
  const std::vector<at::Tensor> statistics = run.get_all(statistics_);
  const Parameter unit = unit_weight(heads);
  if (norms_heads_) {
    return qk_norm_backward(grads.query, grads.key, grads.value, heads, statistics.at(0),
                            norm(run, unit), run.batch().position_ids, frequencies(run),
                            options_.rotary);
  }
  if (norms_turned_) return turned_norm_backward(run, grads, heads, statistics.at(0));
  const at::Tensor grad = rotary_back(run, grads);
  const auto backward =
      options_.qk_norm == QkNormKind::kFull ? full_qk_norm_backward_ : head_layer_norm_backward_;
  backward(grad, heads, statistics, norm(run, unit));
  return grad;
}

}  // namespace packtrain
