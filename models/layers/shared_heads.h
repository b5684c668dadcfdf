// Heads of attention that are not plain projections of a layer's rows (Gemma 3n and 4). Values have
// a norm or are the projected keys. Keys and values are those of an earlier layer.
//
// A layer with `keeps_keys` copies its keys and values to the state of the batch, as attention
// reads them. A later layer with `keys_of_layer` projects queries alone and attends to these. In
// backward it adds its gradients to the copy. The layer that made the copy adds their sum to its
// own. Later layers run backward before it. So a recomputation of the later layer finds the copy.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>

#include "models/block/batch.h"
#include "models/block/block.h"
#include "models/ops/attention/attention.h"
#include "models/ops/rms_norm/rms_norm.h"
#include "models/ops/rotary/rotary.h"

namespace packtrain {

struct SharedHeadsOptions {
  bool value_norm = false;      // y = v / sqrt(mean(v^2) + epsilon) of each value head
  bool keys_as_values = false;  // the projection has no values: the projected keys are these
  bool keeps_keys = false;      // fills BatchState::keys_and_values[layer]
  std::int64_t layer = 0;
  std::int64_t keys_of_layer = -1;  // the projection has queries alone; -1: it has keys too

  bool reads_keys() const { return keys_of_layer >= 0; }
  std::int64_t num_projected_heads(const AttentionShape& shape) const {
    if (reads_keys()) return shape.num_heads;
    return shape.num_heads + shape.num_kv_heads * (keys_as_values ? 1 : 2);
  }
};

// [T, heads + kv, D] to [T, heads + 2 kv, D].
at::Tensor with_keys_as_values(const at::Tensor& heads, const AttentionShape& shape);
// Its backward: [T, heads + 2 kv, D] to [T, heads + kv, D].
at::Tensor with_values_in_keys(const at::Tensor& grad, const AttentionShape& shape);

// Norms the values of heads [T, heads + 2 kv, D] in place. Returns the inverse root mean squares,
// float32 [T, kv], for backward.
at::Tensor norm_values_(const at::Tensor& heads, const AttentionShape& shape, double epsilon);
// Returns the gradient of the values [T, kv, D] before the norm: r (g - y mean(g y)). `heads` has
// the normed values y.
at::Tensor value_norm_backward(const at::Tensor& grad_value, const at::Tensor& heads,
                               const at::Tensor& inverse_rms, const AttentionShape& shape);

// Copies keys and values of heads [T, heads + 2 kv, D] to `shared`.
void keep_keys(const at::Tensor& heads, const AttentionShape& shape, SharedRows& shared);
// Adds the gradients of all later layers to those of keys and values, and drops the copy.
void add_readers(SharedRows& shared, HeadGradients& grads);
// Returns queries [T, heads, D], followed by the shared keys and values. Throws Error(kInternal)
// when the earlier layer has not run.
at::Tensor with_shared_keys(const at::Tensor& queries, const SharedRows& shared);
// Adds this layer's gradients of keys and values.
void add_reader(const HeadGradients& grads, SharedRows& shared);

// RMS norm of each query head with the weight [D], then rotary positions, as qk_norm.h has for
// queries and keys.
struct QueryNorm {
  const Parameter& weight;
  RmsNormOptions options;
  at::Tensor position_ids;  // int32 [T]
  at::Tensor frequencies;   // rotary.h
  RotaryOptions rotary;     // num_rotated_heads is not read
};

struct NormedQueries {
  at::Tensor heads;        // [T, heads, D]
  at::Tensor inverse_rms;  // float32 [T, heads], for backward
};

NormedQueries query_norm_forward(const at::Tensor& queries, const QueryNorm& norm);
// Writes the gradient of the weight. Returns the gradient of `queries` [T, heads, D].
at::Tensor query_norm_backward(const at::Tensor& grad, const at::Tensor& queries,
                               const at::Tensor& inverse_rms, const QueryNorm& norm);

}  // namespace packtrain
