// Sizes and options of Mamba-2's state space model in a layer.
#pragma once

#include <cstdint>
#include <limits>

namespace packtrain {

// A mixer of rows in some layers instead of attention or parallel to it: a state space model
// (ops/mamba2) of convolved rows. A norm follows, of its output times silu of the gate.
struct Mamba2Config {
  std::int64_t num_heads = 0;   // 0: no layer has this mixer
  std::int64_t head_dim = 0;    // columns of a head's state
  std::int64_t num_groups = 1;  // of heads that share B and C; a divisor of num_heads
  std::int64_t state_dim = 0;   // rows of a head's state
  std::int64_t conv_width = 4;  // rows that a convolution reads, its own included
  bool conv_bias = true;
  bool projection_bias = false;  // of both projections
  double norm_epsilon = 1e-6;
  std::int64_t norm_groups = 1;  // parts of a row that have a norm of their own
  bool has_norm = true;          // false: the output times silu of the gate is not normed
  // Limits of a step.
  double min_step = 0;
  double max_step = std::numeric_limits<double>::infinity();

  std::int64_t width() const { return num_heads * head_dim; }
  // Elements of a row that the convolution reads: x, B, C.
  std::int64_t conv_channels() const { return width() + 2 * num_groups * state_dim; }
  // Elements of a row of the projection: the gate, those of the convolution, the steps.
  std::int64_t projection_width() const { return width() + conv_channels() + num_heads; }

  bool operator==(const Mamba2Config&) const = default;
};

}  // namespace packtrain
