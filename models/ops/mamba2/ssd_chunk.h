// One chunk of a sequence of the state space model (ssd.h) in libtorch's operators, in float32.
// L rows, H heads, G groups of heads, P columns and N rows of a state.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>

#include "models/ops/mamba2/ssd.h"

namespace packtrain {

class SsdChunk {
 public:
  // Rows [row, row + size) of the inputs.
  SsdChunk(const SsdInputs& inputs, std::int64_t row, std::int64_t size);

  // y without D x, [H, L, P]. `state` [H, N, P] is that before the chunk.
  at::Tensor output(const at::Tensor& state) const;
  // The state after the chunk.
  at::Tensor next_state(const at::Tensor& state) const;

  struct Gradients {
    at::Tensor x;      // [H, L, P], without that of D x
    at::Tensor b;      // [G, L, N]
    at::Tensor c;      // [G, L, N]
    at::Tensor steps;  // [H, L]
    at::Tensor g;      // [H, L]
    at::Tensor state;  // [H, N, P], of the state before the chunk
  };
  // `grad` [H, L, P] is that of y, `grad_next` that of the state after the chunk.
  Gradients backward(const at::Tensor& grad, const at::Tensor& state,
                     const at::Tensor& grad_next) const;

 private:
  at::Tensor by_head(const at::Tensor& groups) const;  // [G, L, N] to [H, L, N]
  at::Tensor by_group(const at::Tensor& heads) const;  // sums over the heads of a group

  std::int64_t num_groups_;
  at::Tensor x_;         // [H, L, P]
  at::Tensor b_;         // [H, L, N]
  at::Tensor c_;         // [H, L, N]
  at::Tensor steps_;     // [H, L, 1]
  at::Tensor inputs_;    // u, [H, L, P]
  at::Tensor decay_;     // exp(a), [H, L, 1]
  at::Tensor to_end_;    // exp(a_L - a), [H, L, 1]
  at::Tensor ratios_;    // exp(a_i - a_j) for j <= i, else 0, [H, L, L]
  at::Tensor products_;  // K, [H, L, L]
};

}  // namespace packtrain
