// Rotary positions (Su et al., arXiv 2104.09864) on the query and key heads of a merged qkv, in the
// half-split (not interleaved) convention of Hugging Face checkpoints: of each head, element i and
// element i + D/2 turn by the angle position * frequency_i.
//   y1 = x1 cos - x2 sin;  y2 = x2 cos + x1 sin;  the gradient turns back (sin -> -sin).
// qkv [T, num_all_heads, D] float32 or bfloat16; the first `num_rotated` heads (q and k) turn, the
// others (v) are copied. Maths and tables in float32. Deterministic. 2 elements move per element.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <mutex>
#include <vector>

#include "models/decoder_config.h"

namespace packtrain {

// frequency_i = base^(-2i/D), rescaled as the config says:
//   linear: all divided by `factor`;
//   llama3 (transformers, modeling_rope_utils.py): long waves divided by `factor`, short ones kept,
//   those between blended.
std::vector<float> rotary_frequencies(double base, std::int64_t head_dim,
                                      const RotaryScaling& scaling);

// The frequencies, copied to a device once.
class RotaryFrequencies {
 public:
  explicit RotaryFrequencies(std::vector<float> frequencies);
  at::Tensor on(const at::Device& device) const;  // float32 [D / 2]

 private:
  std::vector<float> frequencies_;
  mutable std::mutex mutex_;
  mutable at::Tensor cached_;
};

struct RotaryTables {
  at::Tensor cos;  // float32 [T, 1, D / 2]
  at::Tensor sin;
};

RotaryTables rotary_tables(const at::Tensor& position_ids, const at::Tensor& frequencies);
at::Tensor rotary_forward(const at::Tensor& qkv, std::int64_t num_rotated,
                          const RotaryTables& tables);
at::Tensor rotary_backward(const at::Tensor& grad_output, std::int64_t num_rotated,
                           const RotaryTables& tables);

// The pair for autograd.
at::Tensor rotary(const at::Tensor& qkv, std::int64_t num_rotated, const RotaryTables& tables);

}  // namespace packtrain
