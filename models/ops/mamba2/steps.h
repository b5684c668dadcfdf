// The steps and decays of Mamba-2's state space model (ssd.h). For each row and head, with r the
// projected step:
//    d = clamp(log(1 + exp(r + bias)), low, high);   g = -exp(A_log) d
//    dr = s(r + bias) [low <= log(1 + exp(r + bias)) <= high] e, e = dd - exp(A_log) dg
//    dbias = sum over rows of dr;   dA_log = sum over rows of g dg
// Here s is the logistic function. The projection r [T, H] is float32 or bfloat16, and its rows may
// have gaps. Both d and g are float32 [T, H]. A_log and bias are float32 [H]. libtorch's operators
// compute in float32 on any device, with sums in a fixed order.
#pragma once

#include <ATen/core/Tensor.h>

#include "models/block/block.h"

namespace packtrain {

struct SsdStepParameters {
  const Parameter& a_log;
  const Parameter& bias;
  double low = 0;
  double high = 0;
};

struct SsdSteps {
  at::Tensor steps;
  at::Tensor g;
};

SsdSteps ssd_steps_forward(const at::Tensor& projected, const SsdStepParameters& parameters);
// `grads` are those of the steps and of g. Writes the gradients of the parameters, and that of
// `projected` to `grad_projected` [T, H], whose rows may have gaps.
void ssd_steps_backward(const SsdSteps& grads, const at::Tensor& projected,
                        const SsdStepParameters& parameters, const at::Tensor& grad_projected);

}  // namespace packtrain
