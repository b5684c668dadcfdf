#include "models/layers/recorded_attention.h"

#include <ATen/ops/abs.h>
#include <ATen/ops/clamp.h>
#include <ATen/ops/ones.h>

#include <algorithm>
#include <cstdint>
#include <utility>
#include <vector>

#include "models/block/operator_context.h"
#include "models/layers/declared_parameters.h"
#include "models/layers/query_temperature.h"
#include "models/layers/recorded_output_gate.h"
#include "models/ops/attention/attention_bytes.h"
#include "models/ops/qk_norm/qk_norm.h"
#include "models/ops/qk_norm/row_qk_norm.h"

namespace packtrain {
namespace {

struct AttentionParameters {
  ParameterId query_norm;
  ParameterId key_norm;
  ParameterId sinks;
};

AttentionParameters declare_attention(OperatorTape& tape, const std::string& name,
                                      const AttentionOptions& options) {
  const AttentionShape& shape = options.shape;
  const auto norm_of = [&](const char* part, std::int64_t num_heads) -> ParameterId {
    std::vector<std::int64_t> sizes = {shape.head_dim};
    if (options.qk_norm == QkNormKind::kNone || options.qk_norm == QkNormKind::kHeadUnit) return {};
    if (options.qk_norm == QkNormKind::kFull) sizes = {num_heads * shape.head_dim};
    if (options.qk_norm == QkNormKind::kHeadLayer) sizes = {num_heads, shape.head_dim};
    return declare_scale(tape, name + part, std::move(sizes), options.norm.weight_offset);
  };
  AttentionParameters parameters;
  parameters.query_norm = norm_of(".query_norm.weight", shape.num_heads);
  parameters.key_norm = norm_of(".key_norm.weight", shape.num_kv_heads);
  if (options.sinks) {
    parameters.sinks = tape.parameter({name + ".sinks",
                                       {shape.num_heads},
                                       {Initialization::Kind::kNormal, options.standard_deviation},
                                       OptimizerGroup::kNoDecay});
  }
  return parameters;
}

// Norm statistics of the queries and keys of a row.
std::int64_t num_qk_statistics(const AttentionOptions& options) {
  const std::int64_t num_heads = options.shape.num_heads + options.shape.num_kv_heads;
  switch (options.qk_norm) {
    case QkNormKind::kNone:
      return 0;
    case QkNormKind::kFull:
      return 2;
    case QkNormKind::kHeadLayer:
      return 2 * num_heads;
    case QkNormKind::kHead:
    case QkNormKind::kHeadUnit:
      break;
  }
  return num_heads;
}

// From the merged projection to the heads that attention reads, and their backward.
class PreparedHeads {
 public:
  PreparedHeads(OperatorTape& tape, const std::string& name, Value qkv,
                const AttentionParameters& parameters, const AttentionOptions& options)
      : parameters_(parameters),
        options_(options),
        num_heads_(options.shape.num_heads + 2 * options.shape.num_kv_heads),
        is_normed_(options.qk_norm != QkNormKind::kNone),
        norms_heads_(options.qk_norm == QkNormKind::kHead ||
                     options.qk_norm == QkNormKind::kHeadUnit),
        shape_{tape.shape(qkv).num_rows, num_heads_ * options.shape.head_dim,
               tape.shape(qkv).dtype},
        qkv_(qkv),
        statistics_(tape.value(ValueKind::kStatistics, name + ".norm_statistics",
                               {shape_.num_rows, num_qk_statistics(options), c10::kFloat})),
        clipped_(tape.value(
            ValueKind::kProjection, name + ".clipped",
            {shape_.num_rows, is_clipped() && !is_normed_ ? shape_.width : 0, c10::kBool})),
        // Norms are cheap to recompute.
        rotated_(tape.value(is_normed_ ? ValueKind::kNormOutput : ValueKind::kProjection,
                            name + ".rotated_qkv", shape_)) {}

  Value rotated() const { return rotated_; }
  std::vector<Value> outputs() const { return {rotated_, statistics_, clipped_}; }
  // Values that backward() reads.
  std::vector<Value> needs() const {
    std::vector<Value> needs = {rotated_};
    if (is_normed_) needs.insert(needs.end(), {qkv_, statistics_});
    if (is_clipped() && !is_normed_) needs.push_back(clipped_);
    return needs;
  }

  void forward(OperatorContext& run) const {
    at::Tensor heads = by_head(run.get(qkv_));
    std::vector<at::Tensor> statistics;
    if (is_normed_) {
      heads = normed(run, is_clipped() ? clip(heads) : heads, statistics);
    } else {
      if (options_.gated) {
        heads = heads.contiguous();  // the gate stays
      } else {
        run.release(qkv_);
      }
      if (is_clipped()) {
        run.set(clipped_, is_beyond(heads));
        heads.clamp_(-options_.clip_qkv, options_.clip_qkv);
      }
    }
    if (!norms_heads_ && options_.rotates) {
      rotary_forward_(heads, run.batch().position_ids, frequencies(run), options_.rotary);
    }
    scale_queries_(heads.narrow(1, 0, options_.shape.num_heads), run.batch(), options_.temperature);
    run.set(rotated_, std::move(heads));
    run.set_all(statistics_, std::move(statistics));
  }

  void backward(OperatorContext& run, const HeadGradients& grads) const {
    scale_queries_(grads.query, run.batch(), options_.temperature);
    const at::Tensor grad = is_normed_ ? norm_backward(run, grads) : rotary_back(run, grads);
    if (is_clipped()) {
      grad.masked_fill_(is_normed_ ? is_beyond(by_head(run.get(qkv_))) : run.get(clipped_), 0);
    }
    const at::Tensor rows = grad.view({grad.size(0), shape_.width});
    if (!options_.gated) return run.set_gradient(qkv_, rows);
    const at::Tensor whole = run.gradient(qkv_);  // the gate's backward wrote its own columns
    whole.narrow(1, whole.size(1) - shape_.width, shape_.width).copy_(rows);
  }

 private:
  bool is_clipped() const { return options_.clip_qkv > 0; }
  at::Tensor frequencies(const OperatorContext& run) const {
    return options_.frequencies->of(run.batch());
  }
  // The weights of ones of a norm that has no parameters. Else without a value.
  Parameter unit_weight(const at::Tensor& heads) const {
    if (options_.qk_norm != QkNormKind::kHeadUnit) return {};
    return {at::ones({options_.shape.head_dim}, heads.options()), {}};
  }
  // `unit` must stay valid as long as the result.
  QkNorm norm(const OperatorContext& run, const Parameter& unit) const {
    if (unit.value.defined()) return {unit, unit, options_.shape.num_heads, options_.norm};
    return {run.parameter(parameters_.query_norm), run.parameter(parameters_.key_norm),
            options_.shape.num_heads, options_.norm};
  }
  // The heads follow the gate, if there is one.
  at::Tensor by_head(const at::Tensor& rows) const {
    return rows.narrow(1, rows.size(1) - shape_.width, shape_.width)
        .view({rows.size(0), num_heads_, options_.shape.head_dim});
  }
  at::Tensor clip(const at::Tensor& heads) const {
    return at::clamp(heads, -options_.clip_qkv, options_.clip_qkv);
  }
  // True where clip() has gradient 0.
  at::Tensor is_beyond(const at::Tensor& heads) const {
    return at::abs(heads).gt(options_.clip_qkv);
  }

  // A norm of heads also rotates.
  at::Tensor normed(const OperatorContext& run, const at::Tensor& heads,
                    std::vector<at::Tensor>& statistics) const {
    const Parameter unit = unit_weight(heads);
    if (norms_heads_) {
      QkNormOutput output = qk_norm_forward(heads, norm(run, unit), run.batch().position_ids,
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

  at::Tensor rotary_back(const OperatorContext& run, const HeadGradients& grads) const {
    return rotary_backward(grads.query, grads.key, grads.value, run.batch().position_ids,
                           frequencies(run), options_.rotary);
  }

  at::Tensor norm_backward(OperatorContext& run, const HeadGradients& grads) const {
    const at::Tensor projected = by_head(run.get(qkv_));
    const at::Tensor heads = is_clipped() ? clip(projected) : projected;
    const std::vector<at::Tensor> statistics = run.get_all(statistics_);
    const Parameter unit = unit_weight(heads);
    if (norms_heads_) {
      return qk_norm_backward(grads.query, grads.key, grads.value, heads, statistics.at(0),
                              norm(run, unit), run.batch().position_ids, frequencies(run),
                              options_.rotary);
    }
    const at::Tensor grad = rotary_back(run, grads);
    const auto backward =
        options_.qk_norm == QkNormKind::kFull ? full_qk_norm_backward_ : head_layer_norm_backward_;
    backward(grad, heads, statistics, norm(run, unit));
    return grad;
  }

  AttentionParameters parameters_;
  AttentionOptions options_;
  std::int64_t num_heads_;
  bool is_normed_;
  bool norms_heads_;  // the norm's operator also rotates
  ValueShape shape_;  // of queries, keys and values
  Value qkv_;
  Value statistics_;
  Value clipped_;
  Value rotated_;
};

// The norms of heads run after attention's backward, with these heads in float32.
std::int64_t qk_norm_workspace(const AttentionOptions& options, std::int64_t num_rows) {
  constexpr std::int64_t kFloats = 6;
  const std::int64_t query = options.shape.num_heads * options.shape.head_dim;
  const bool wide = options.qk_norm == QkNormKind::kHeadLayer;
  return wide ? kFloats * num_rows * query * static_cast<std::int64_t>(sizeof(float)) : 0;
}

BackwardMemory attention_memory(const AttentionOptions& options, const ValueShape& rotated,
                                const ValueShape& output, const MicroBatchShape& size,
                                const RecomputePolicy& policy) {
  const AttentionLoad load = {.num_tokens = rotated.num_rows,
                              .num_sequences = size.num_sequences,
                              .max_tokens = size.max_rows,
                              .num_keys = size.num_keys,
                              .max_keys = size.max_keys};
  const AttentionBytes needed = attention_backward_bytes(
      options.shape, load, size.on_gpu ? at::kCUDA : at::kCPU, size.compute);
  const bool recomputed =
      options.qk_norm != QkNormKind::kNone && !policy.keeps(ValueKind::kNormOutput);
  const std::int64_t workspace =
      std::max(needed.workspace, qk_norm_workspace(options, rotated.num_rows));
  return {"attention backward",
          {{"gradient of attention's output", output.bytes()},
           {"gradients of attention's heads", needed.gradients, true},
           {"normalised queries and keys again", recomputed ? rotated.bytes() : 0},
           {"gradient of the gated projection",
            options.gated ? output.bytes() + 2 * rotated.bytes() : 0},
           {"attention's workspace", workspace, true}}};
}

}  // namespace

Value self_attention(OperatorTape& tape, const std::string& name, Value qkv,
                     const AttentionOptions& options) {
  const AttentionShape shape = options.shape;
  const AttentionParameters parameters = declare_attention(tape, name, options);
  const auto heads = std::make_shared<PreparedHeads>(tape, name, qkv, parameters, options);
  // Attention's operator runs this backward too, because it has the gradients of queries, keys and
  // values as separate tensors.
  Operator rotate;
  rotate.inputs = {qkv};
  rotate.outputs = heads->outputs();
  rotate.forward = [heads](OperatorContext& run) { heads->forward(run); };
  tape.record(std::move(rotate));

  const ValueShape rotated = tape.shape(heads->rotated());
  const ValueShape output = {rotated.num_rows, shape.num_heads * shape.head_dim, rotated.dtype};
  const Value y = tape.value(ValueKind::kAttentionOutput, name, output);
  const Value statistics = tape.value(ValueKind::kStatistics, name + ".statistics",
                                      {rotated.num_rows, shape.num_heads, c10::kFloat});
  Operator attend;
  attend.inputs = {heads->rotated()};
  attend.outputs = {y, statistics};
  attend.needs = heads->needs();
  attend.needs.insert(attend.needs.end(), {y, statistics});
  // Half of them are of queries and keys.
  attend.multiply_adds.of_squares = shape.num_heads * (shape.head_dim + options.value_dim) / 2;
  attend.forward = [=, sinks = parameters.sinks](OperatorContext& run) {
    AttentionOutput result = attention_forward(run.get(heads->rotated()), shape, run.batch(),
                                               run.find(sinks), run.options());
    run.set(y, std::move(result.y));
    run.set_all(statistics, std::move(result.saved));
  };
  attend.backward = [=, sinks = parameters.sinks](OperatorContext& run) {
    const at::Tensor mixed = run.get(y);
    heads->backward(run, attention_backward(run.gradient(y), run.get(heads->rotated()), mixed,
                                            run.get_all(statistics), shape, run.batch(),
                                            run.find(sinks), run.options()));
  };
  attend.memory = [=](const MicroBatchShape& size, const RecomputePolicy& policy) {
    return attention_memory(options, rotated, output, size, policy);
  };
  tape.record(std::move(attend));
  return options.gated ? gated_output(tape, name, y, qkv) : y;
}

}  // namespace packtrain
