// Rotary positions (Su et al., arXiv 2104.09864) on the query and key heads of a merged qkv. In
// each head the pair i < P is elements i and i + P (half-split, as in Hugging Face checkpoints) or
// 2i and 2i + 1 (interleaved). It rotates by the angle position * frequency_i. Elements from 2P on
// do not rotate.
//    y1 = x1 cos - x2 sin;  y2 = x2 cos + x1 sin;  the gradient rotates back (sin -> -sin).
// The angle is a float32 product, as in transformers' modeling_rope_utils.py. The kernel computes
// sine and cosine once for all heads of a token. See rotary_frequencies.h for the frequencies.
// Tensors are float32 or bfloat16. Computes in float32 and rounds once. Deterministic. Elements
// that must move: forward twice those of the rotated heads, backward twice those of all heads.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>

namespace packtrain {

struct RotaryOptions {
  std::int64_t num_rotated_heads = 0;  // the first heads: queries and keys
  bool interleaved = false;
  double scaling = 1.0;  // multiplies cosine and sine (YaRN, arXiv 2309.00071)
};

// Rotates the first heads of qkv [T, heads, D], contiguous, in place. The position_ids are int32
// [T]. The frequencies are float32 [P] for all tokens or [T, P], with P <= D / 2.
void rotary_forward_(at::Tensor& qkv, const at::Tensor& position_ids, const at::Tensor& frequencies,
                     const RotaryOptions& options);
// Returns d qkv [T, heads, D] from the gradients of its parts [T, part's heads, D]. Their strides
// are arbitrary, but 1 within a head. Queries and keys, num_rotated_heads together, rotate back.
// Values are copied.
at::Tensor rotary_backward(const at::Tensor& grad_query, const at::Tensor& grad_key,
                           const at::Tensor& grad_value, const at::Tensor& position_ids,
                           const at::Tensor& frequencies, const RotaryOptions& options);

// On CUDA tensors. The functions above call these; no_cuda.cpp has them in a build without CUDA.
void rotary_forward_cuda_(const at::Tensor& qkv, const at::Tensor& position_ids,
                          const at::Tensor& frequencies, const RotaryOptions& options);
at::Tensor rotary_backward_cuda(const at::Tensor& grad_query, const at::Tensor& grad_key,
                                const at::Tensor& grad_value, const at::Tensor& position_ids,
                                const at::Tensor& frequencies, const RotaryOptions& options);

}  // namespace packtrain
