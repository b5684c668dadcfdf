// What attention does before it attends: from the merged projection to the heads that it reads, and
// back. recorded_attention.cpp records both.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <string>
#include <vector>

#include "models/block/operator_context.h"
#include "models/layers/recorded_attention.h"
#include "models/layers/shared_heads.h"
#include "models/ops/attention/attention.h"
#include "models/ops/qk_norm/qk_norm.h"
#include "models/ops/rotary/rotary.h"

namespace packtrain {

struct AttentionParameters {
  ParameterId query_norm;
  ParameterId key_norm;
  ParameterId sinks;
};

// From the merged projection to the heads that attention reads, and their backward.
class PreparedHeads {
 public:
  PreparedHeads(OperatorTape& tape, const std::string& name, Value qkv,
                const AttentionParameters& parameters, const AttentionOptions& options);

  Value rotated() const { return rotated_; }
  std::vector<Value> outputs() const { return {rotated_, statistics_, clipped_}; }
  std::vector<Value> needs() const;  // values that backward() reads

  void forward(OperatorContext& run) const;
  void backward(OperatorContext& run, HeadGradients grads) const;

 private:
  bool is_clipped() const { return options_.clip_qkv > 0; }
  at::Tensor frequencies(const OperatorContext& run) const;
  // The weights of ones of a norm that has no parameters. Else without a value.
  Parameter unit_weight(const at::Tensor& heads) const;
  // `unit` must stay valid as long as the result.
  QkNorm norm(const OperatorContext& run, const Parameter& unit) const;
  QueryNorm query_norm(const OperatorContext& run) const;
  // The heads follow the gate, if there is one.
  at::Tensor by_head(const at::Tensor& rows) const;
  // Queries, keys and values as attention reads them, before norms and positions.
  at::Tensor whole_heads(OperatorContext& run) const;
  // The gradient of the projection from that of whole_heads().
  at::Tensor rows_of(const at::Tensor& grad) const;
  SharedRows& shared_rows(const OperatorContext& run) const;

  // These are for a layer that has queries alone.
  void forward_queries(OperatorContext& run) const;
  void backward_queries(OperatorContext& run, const HeadGradients& grads) const;

  at::Tensor clip(const at::Tensor& heads) const;
  at::Tensor is_beyond(const at::Tensor& heads) const;  // true where clip() has gradient 0
  // The projection's heads without a norm: clipped, in its memory unless a gate needs that.
  at::Tensor unnormed(OperatorContext& run) const;
  // A norm of heads also rotates.
  at::Tensor normed(const OperatorContext& run, const at::Tensor& heads,
                    std::vector<at::Tensor>& statistics) const;
  at::Tensor norm_backward(OperatorContext& run, const HeadGradients& grads) const;
  // Rotated copies, which a norm reads.
  at::Tensor turned(const OperatorContext& run, const at::Tensor& heads) const;
  // Options of a norm that does not rotate. Its frequencies are AttentionOptions::no_frequencies.
  RotaryOptions no_rotary() const;
  QkNormOutput turned_norm(const OperatorContext& run, const at::Tensor& heads,
                           const Parameter& unit) const;
  at::Tensor turned_norm_backward(const OperatorContext& run, const HeadGradients& grads,
                                  const at::Tensor& heads, const at::Tensor& inverse_rms) const;
  at::Tensor rotary_back(const OperatorContext& run, const HeadGradients& grads) const;

  AttentionParameters parameters_;
  AttentionOptions options_;
  std::int64_t num_heads_;
  std::int64_t num_own_heads_;  // in the projection
  bool is_normed_;
  bool norms_heads_;   // the norm's operator also rotates
  bool norms_turned_;  // the norm reads rotated heads
  ValueShape shape_;   // of queries, keys and values
  Value qkv_;
  Value statistics_;
  Value clipped_;
  Value rotated_;
};

}  // namespace packtrain
