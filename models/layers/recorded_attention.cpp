#include "models/layers/recorded_attention.h"

#include <ATen/ops/abs.h>
#include <ATen/ops/clamp.h>

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "models/ops/qk_norm/qk_norm.h"
#include "models/ops/qk_norm/row_qk_norm.h"

namespace packtrain {
namespace {

// From the merged projection to the heads that attention reads, and their backward.
class PreparedHeads {
 public:
  PreparedHeads(OperatorTape& tape, std::string_view name, Value qkv,
                const AttentionWeights& weights, const AttentionOptions& options,
                const DeviceBatch& batch)
      : tape_(tape),
        batch_(batch),
        weights_(weights),
        options_(options),
        num_heads_(options.shape.num_heads + 2 * options.shape.num_kv_heads),
        is_normed_(options.qk_norm != QkNormKind::kNone),
        qkv_(qkv),
        // Norms are cheap to recompute.
        turned_(tape.value(is_normed_ ? ValueKind::kNormOutput : ValueKind::kProjection,
                           std::string(name) + ".rotated_qkv")),
        statistics_(tape.value(ValueKind::kStatistics, std::string(name) + ".norm_statistics")),
        clipped_(tape.value(ValueKind::kProjection, std::string(name) + ".clipped")) {}

  Value turned() const { return turned_; }
  std::vector<Value> outputs() const { return {turned_, statistics_, clipped_}; }
  // Values that backward() reads.
  std::vector<Value> needs() const {
    std::vector<Value> needs = {turned_};
    if (is_normed_) needs.insert(needs.end(), {qkv_, statistics_});
    if (is_clipped() && !is_normed_) needs.push_back(clipped_);
    return needs;
  }

  void forward() const {
    at::Tensor heads = by_head(tape_.get(qkv_));
    std::vector<at::Tensor> statistics;
    if (is_normed_) {
      heads = normed(is_clipped() ? clip(heads) : heads, statistics);
    } else {
      tape_.release(qkv_);
      if (is_clipped()) {
        tape_.set(clipped_, is_beyond(heads));
        heads.clamp_(-options_.clip_qkv, options_.clip_qkv);
      }
    }
    if (options_.qk_norm != QkNormKind::kHead) {
      rotary_forward_(heads, batch_.position_ids, rotary().frequencies, rotary().options);
    }
    tape_.set(turned_, std::move(heads));
    tape_.set_all(statistics_, std::move(statistics));
  }

  void backward(const HeadGradients& grads) const {
    const at::Tensor grad = is_normed_ ? norm_backward(grads) : rotary_back(grads);
    if (is_clipped()) {
      grad.masked_fill_(is_normed_ ? is_beyond(by_head(tape_.get(qkv_))) : tape_.get(clipped_), 0);
    }
    tape_.set_gradient(qkv_, grad.view({grad.size(0), num_heads_ * options_.shape.head_dim}));
  }

 private:
  bool is_clipped() const { return options_.clip_qkv > 0; }
  const RotaryEmbedding& rotary() const { return options_.rotary; }
  QkNorm norm() const {
    return {*weights_.query_norm, *weights_.key_norm, options_.shape.num_heads, options_.norm};
  }
  at::Tensor by_head(const at::Tensor& rows) const {
    return rows.view({rows.size(0), num_heads_, options_.shape.head_dim});
  }
  at::Tensor clip(const at::Tensor& heads) const {
    return at::clamp(heads, -options_.clip_qkv, options_.clip_qkv);
  }
  // True where clip() has gradient 0.
  at::Tensor is_beyond(const at::Tensor& heads) const {
    return at::abs(heads).gt(options_.clip_qkv);
  }

  // kHead also rotates.
  at::Tensor normed(const at::Tensor& heads, std::vector<at::Tensor>& statistics) const {
    if (options_.qk_norm == QkNormKind::kHead) {
      QkNormOutput output = qk_norm_forward(heads, norm(), batch_.position_ids,
                                            rotary().frequencies, rotary().options);
      statistics = {std::move(output.inverse_rms)};
      return output.qkv;
    }
    RowQkNormOutput output = options_.qk_norm == QkNormKind::kFull
                                 ? full_qk_norm_forward(heads, norm())
                                 : head_layer_norm_forward(heads, norm());
    statistics = std::move(output.statistics);
    return output.qkv;
  }

  at::Tensor rotary_back(const HeadGradients& grads) const {
    return rotary_backward(grads.query, grads.key, grads.value, batch_.position_ids,
                           rotary().frequencies, rotary().options);
  }

  at::Tensor norm_backward(const HeadGradients& grads) const {
    const at::Tensor projected = by_head(tape_.get(qkv_));
    const at::Tensor heads = is_clipped() ? clip(projected) : projected;
    const std::vector<at::Tensor> statistics = tape_.get_all(statistics_);
    if (options_.qk_norm == QkNormKind::kHead) {
      return qk_norm_backward(grads.query, grads.key, grads.value, heads, statistics.at(0), norm(),
                              batch_.position_ids, rotary().frequencies, rotary().options);
    }
    const at::Tensor grad = rotary_back(grads);
    const auto backward =
        options_.qk_norm == QkNormKind::kFull ? full_qk_norm_backward_ : head_layer_norm_backward_;
    backward(grad, heads, statistics, norm());
    return grad;
  }

  OperatorTape& tape_;
  const DeviceBatch& batch_;
  AttentionWeights weights_;
  AttentionOptions options_;
  std::int64_t num_heads_;
  bool is_normed_;
  Value qkv_;
  Value turned_;
  Value statistics_;
  Value clipped_;
};

}  // namespace

Value self_attention(OperatorTape& tape, std::string_view name, Value qkv,
                     const AttentionWeights& weights, const AttentionOptions& options,
                     const DeviceBatch& batch) {
  const AttentionShape shape = options.shape;
  const auto heads = std::make_shared<PreparedHeads>(tape, name, qkv, weights, options, batch);
  // Attention's operator runs this backward too, because it has the gradients of queries, keys and
  // values as separate tensors.
  OperatorTape::Operator turn;
  turn.outputs = heads->outputs();
  turn.forward = [heads] { heads->forward(); };
  tape.record(std::move(turn));

  const Value y = tape.value(ValueKind::kAttentionOutput, name);
  const Value statistics = tape.value(ValueKind::kStatistics, std::string(name) + ".statistics");
  OperatorTape::Operator attend;
  attend.outputs = {y, statistics};
  attend.needs = heads->needs();
  attend.needs.insert(attend.needs.end(), {y, statistics});
  attend.forward = [=, &tape, &batch, sinks = weights.sinks] {
    AttentionOutput output = attention_forward(tape.get(heads->turned()), shape, batch, sinks);
    tape.set(y, std::move(output.y));
    tape.set_all(statistics, std::move(output.saved));
  };
  attend.backward = [=, &tape, &batch, sinks = weights.sinks] {
    const at::Tensor mixed = tape.get(y);
    heads->backward(attention_backward(tape.gradient(y), tape.get(heads->turned()), mixed,
                                       tape.get_all(statistics), shape, batch, sinks));
  };
  tape.record(std::move(attend));
  return y;
}

}  // namespace packtrain
