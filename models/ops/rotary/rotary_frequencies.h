// Frequencies of rotary positions: frequency_i = base^(-2i/D), i < D / 2, for the D rotating
// elements of a head, rescaled as the config says. It is 0 where config.rotates is false. M is
// original_max_positions. The formulas are those of transformers' modeling_rope_utils.py:
//    linear    all divided by `factor`;
//    llama3    wavelengths above M / low_frequency_factor divided by `factor`, those below
//              M / high_frequency_factor unchanged, those between blended;
//    dynamic   in a sequence of L > M tokens the base grows by s^(D/(D-2)), s = factor L / M -
//              (factor - 1);
//    yarn      (Peng et al., arXiv 2309.00071) a blend of frequency i divided by `factor`, with
//              weight clamp((i - a) / (b - a), 0, 1), and of frequency i itself; at a and b a
//              wave rotates beta_fast and beta_slow times within M tokens;
//    longrope  (Ding et al., arXiv 2402.13753) divided by short_factors[i], in sequences of
//              L > M tokens by long_factors[i];
//    proportional  all divided by `factor`, and 0 from floor(proportion D / 2) on.
// In transformers, L is the longest sequence of a padded batch, and `dynamic` remembers the longest
// one seen. Here each sequence of a pack has its own L, as if it were alone.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <mutex>
#include <vector>

#include "models/block/batch.h"
#include "models/ops/rotary/rotary_config.h"

namespace packtrain {

// Returns [dim / 2] for a sequence of `length` tokens.
std::vector<float> rotary_frequencies(const RotaryConfig& config, std::int64_t dim,
                                      std::int64_t length = 0);

// The frequencies of a model's layers on their device.
class RotaryFrequencies {
 public:
  RotaryFrequencies(RotaryConfig config, std::int64_t dim);

  // float32 [dim / 2] for all tokens. dynamic and longrope give [T, dim / 2], computed once a batch
  // from boundaries that are read on the device.
  at::Tensor of(DeviceBatch& batch) const;

 private:
  at::Tensor constants(const at::Device& device) const;
  at::Tensor by_sequence(const at::Tensor& lengths) const;
  at::Tensor by_token(const DeviceBatch& batch) const;

  std::int64_t id_;  // unique in this process
  RotaryConfig config_;
  std::int64_t dim_;
  mutable std::mutex mutex_;
  mutable at::Tensor constants_;
};

}  // namespace packtrain
