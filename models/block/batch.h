// A micro-batch on the device: the input of a model's blocks.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <map>
#include <memory>
#include <vector>

#include "framework/data/attention_segment.h"
#include "models/block/adapter_rows.h"
#include "models/block/group_rows.h"

namespace packtrain {

struct DeviceBatch;
struct AttentionLayout;    // models/ops/attention/cudnn/layout.h
struct DeltaRuleTables;    // models/ops/delta_rule/device_table_cuda.h
struct ExpandedKeys;       // models/ops/attention/expanded_keys.h
struct ShortDivisions;     // models/ops/attention/short/attention.h
struct RoutingStatistics;  // models/layers/routing_statistics.h

// Rows that one block computes and later blocks read. Their gradient is the sum of those of all
// readers.
struct SharedRows {
  at::Tensor rows;
  at::Tensor gradient;  // undefined: no reader has had its backward

  // `part` must not be used afterwards.
  void add_gradient(const at::Tensor& part) {
    if (gradient.defined()) {
      gradient.add_(part);
    } else {
      gradient = part;
    }
  }
};

// What blocks compute from a batch, for later blocks and for the caller.
struct BatchState {
  // The boundaries in cuDNN's form. The attention of the first layer fills this.
  std::shared_ptr<const AttentionLayout> attention_layout;
  // Copies of keys for segments with prefixes. The attention of the first layer fills this.
  std::shared_ptr<const ExpandedKeys> expanded_keys;
  // The chunks of the segments, by size (models/ops/attention/chunks.h). The first layer with
  // chunks fills this.
  std::map<std::int64_t, std::shared_ptr<DeviceBatch>> chunks;
  // Divisions of the sequences between kernels. The attention of each shape fills its own.
  std::shared_ptr<ShortDivisions> short_divisions;
  // Chunks of the sequences on a GPU. The delta rule of each shape fills its own.
  std::shared_ptr<DeltaRuleTables> delta_rule_tables;
  // Spread of the rows over experts. Layers with experts fill this.
  std::shared_ptr<RoutingStatistics> routing;
  // float32 [T, P], for rotary scalings that depend on the length of each sequence. Keyed by
  // RotaryFrequencies; the first layer fills it.
  std::map<std::int64_t, at::Tensor> token_frequencies;
  // [T, layers * width]: DecoderConfig::layer_input_width. The embedding fills this.
  SharedRows layer_inputs;
  // [T, 2 kv, head_dim]: keys and values to which later layers attend, after norms and positions.
  // Keyed by the layer that fills it.
  std::map<std::int64_t, SharedRows> keys_and_values;

  // Drops the rows that blocks share, at the beginning of a forward and when they are not needed.
  void forget_shared_rows() {
    layer_inputs = {};
    keys_and_values.clear();
  }

  // Drops what depends on the boundaries. The next forward computes it again.
  void forget_boundaries() {
    attention_layout.reset();
    expanded_keys.reset();
    chunks.clear();
    short_divisions.reset();
    delta_rule_tables.reset();
    token_frequencies.clear();
  }
};

// Blocks read all members but `state`. Shapes: T tokens (padding included), S segments (dummy
// included), N supervised rows.
struct DeviceBatch {
  at::Tensor input_ids;     // int32 [T]
  at::Tensor position_ids;  // int32 [T]
  // int32 [S + 1]: boundaries of the segments of attention, on the device. Where a segment has a
  // prefix, kernels that read only these must refuse the batch (segments().require_sequences()).
  at::Tensor cu_seqlens;
  std::vector<std::int32_t> cu_seqlens_host;  // host copy: reading it waits for nothing
  std::vector<SegmentPrefix> prefixes;        // of segments that have one, in their order
  std::int32_t max_seqlen = 0;                // keys of a segment, at most
  at::Tensor loss_index;                      // int32 [N] rows with a label
  at::Tensor loss_labels;                     // int32 [N] labels[loss_index]
  at::Tensor loss_weight;                     // float32 [N]
  at::Tensor loss_source;  // int32 [N] source of each row, or undefined; blocks do not read it
  // float32 [N] weight of the row's loss mask byte, a factor of loss_weight. Undefined: 1. Blocks
  // do not read it.
  at::Tensor token_weight;
  // int32 [2, P]: start and end rows of each example, or of each piece of one, in rising order.
  // Pads are in no example. Undefined: the examples are the sequences.
  at::Tensor examples;
  // Where several adapters are trained together: of all rows, and of the supervised ones in
  // loss_index. Pads at the end are of none.
  AdapterRows adapter_rows;
  AdapterRows adapter_loss_rows;
  GroupRows groups;  // of a store with groups; else undefined
  // The head writes row_losses and returns a loss of 0. In evaluation alone.
  bool only_row_losses = false;
  // Blocks leave the low-rank updates out: the output is that of the model under the adapter. In
  // evaluation alone.
  bool without_adapter = false;
  // int32 [T] random bits of each row for masks of dropout (collators/packed_batch.h). Undefined:
  // no dropout.
  at::Tensor row_seeds;
  // int64 [N] random bits of each supervised row (collators/packed_batch.h). When defined, the head
  // replaces loss_labels by labels that it samples from its own distribution (sample_labels.h).
  at::Tensor sample_seeds;
  // When defined, float32 [N]: the head also writes each supervised row's unweighted loss here.
  at::Tensor row_losses;
  // When defined, bool [N]: the head also writes whether each supervised row's label, given or
  // sampled, is greedy. The greedy token is the lowest id of those with the largest logit.
  at::Tensor row_greedy;
  // When defined, float32 [N, V]: the head also writes each supervised row's logits here.
  at::Tensor row_logits;
  BatchState state;

  // Valid until the batch is changed.
  AttentionSegments segments() const { return {cu_seqlens_host, prefixes}; }
  std::int64_t num_rows() const { return input_ids.defined() ? input_ids.size(0) : 0; }
};

}  // namespace packtrain
