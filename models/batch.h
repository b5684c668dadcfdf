// A micro-batch on the device, as the model's blocks see it.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <map>
#include <memory>
#include <vector>

namespace packtrain {

struct AttentionLayout;    // models/ops/attention/cudnn_layout.h
struct RoutingStatistics;  // models/routing_statistics.h

// Shapes: T tokens (padding included), S sequences (dummy included), N supervised rows.
struct DeviceBatch {
  at::Tensor input_ids;                       // int32 [T]
  at::Tensor position_ids;                    // int32 [T]
  at::Tensor cu_seqlens;                      // int32 [S + 1], on the device
  std::vector<std::int32_t> cu_seqlens_host;  // the same on the host: no sync to read it
  std::int32_t max_seqlen = 0;
  at::Tensor loss_index;   // int32 [N] rows with a label
  at::Tensor loss_labels;  // int32 [N] labels[loss_index]
  at::Tensor loss_weight;  // float32 [N]
  at::Tensor loss_source;  // int32 [N] its source, or undefined; nothing to a block
  // float32 [N] what its mask byte weighs, part of loss_weight; undefined: 1. Nothing to a block.
  at::Tensor token_weight;
  // int32 [2, P]: where the rows of each example (or piece of one) begin, and where they end, pads
  // left out, in rising order; undefined: these are the sequences.
  at::Tensor examples;
  // When defined, float32 [N]: the head also writes each supervised row's unweighted loss here.
  at::Tensor row_losses;
  // When defined, float32 [N, V]: the head also writes each supervised row's logits here.
  at::Tensor row_logits;
  // The boundaries once more, as cuDNN reads them: the first layer's attention fills this.
  mutable std::shared_ptr<const AttentionLayout> attention_layout;
  // How its rows were spread over experts: layers with experts fill this.
  mutable std::shared_ptr<RoutingStatistics> routing;
  // float32 [T, P], of rotary scalings that look at each sequence's length, by
  // RotaryFrequencies: the first layer fills this.
  mutable std::map<std::int64_t, at::Tensor> token_frequencies;

  std::int64_t num_rows() const { return input_ids.defined() ? input_ids.size(0) : 0; }
};

}  // namespace packtrain
