// Settings of layers with a gated delta rule.
#pragma once

#include <cstdint>

namespace packtrain {

// A mixer of rows in some layers instead of attention: a gated delta rule (ops/delta_rule) of
// convolved queries, keys and values, then a gated norm.
struct DeltaNetConfig {
  std::int64_t num_key_heads = 0;    // of queries too; 0: no layer has this mixer
  std::int64_t num_value_heads = 0;  // a multiple of num_key_heads
  std::int64_t key_head_dim = 0;
  std::int64_t value_head_dim = 0;
  std::int64_t conv_width = 4;  // rows that a convolution reads, its own included
  double norm_epsilon = 1e-6;   // of the gated norm
  double beta_multiplier = 1;   // factor of the strengths of writes
  // Its layers have norms before both branches and none after. Other layers may differ.
  bool norms_before = false;
  // Limits of initial values: of the decay, and of its step. 0 steps: dt_bias starts at 1.
  double min_decay = 0.01;
  double max_decay = 16;
  double min_step = 0;
  double max_step = 0;

  std::int64_t key_width() const { return num_key_heads * key_head_dim; }
  std::int64_t value_width() const { return num_value_heads * value_head_dim; }
  // Elements of a row that the convolution reads: queries, keys, values.
  std::int64_t conv_channels() const { return 2 * key_width() + value_width(); }

  bool operator==(const DeltaNetConfig&) const = default;
};

}  // namespace packtrain
