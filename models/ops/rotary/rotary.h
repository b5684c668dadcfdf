// Rotary positions (Su et al., arXiv 2104.09864) on the query and key heads of a merged qkv. Of
// each head, elements i and i + P (the half-split convention of Hugging Face checkpoints) or 2i and
// 2i + 1 (interleaved) turn by the angle position * frequency_i, i < P; elements from 2P on stay.
//   y1 = x1 cos - x2 sin;  y2 = x2 cos + x1 sin;  the gradient turns back (sin -> -sin).
// The angle is the product in float32 (as in transformers' modeling_rope_utils.py), sine and cosine
// are made in the kernel, once for all heads of a token. Frequencies: rotary_frequencies.h. float32
// or bfloat16, maths in float32, rounded once. Deterministic. Elements that must move: forward 2
// for each of the rotated heads, backward 2 for each of all heads.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>

namespace packtrain {

struct RotaryOptions {
  std::int64_t num_rotated_heads = 0;  // the first ones: queries and keys
  bool interleaved = false;
  double scaling = 1.0;  // multiplies cosine and sine (YaRN, arXiv 2309.00071)
};

// Turns the first heads of qkv [T, heads, D], contiguous, in place. position_ids int32 [T];
// frequencies float32 [P] for all tokens or [T, P], P <= D / 2.
void rotary_forward_(at::Tensor& qkv, const at::Tensor& position_ids, const at::Tensor& frequencies,
                     const RotaryOptions& options);
// d qkv [T, heads, D] from the gradients of its parts [T, part's heads, D], of any strides but 1
// within a head: queries and keys, num_rotated_heads together, turn back; values are copied.
at::Tensor rotary_backward(const at::Tensor& grad_query, const at::Tensor& grad_key,
                           const at::Tensor& grad_value, const at::Tensor& position_ids,
                           const at::Tensor& frequencies, const RotaryOptions& options);

}  // namespace packtrain
