// The one adapter between an operator's plain forward/backward pair and libtorch's autograd.
#pragma once

#include <ATen/core/Tensor.h>

#include <functional>
#include <vector>

namespace packtrain {

using Tensors = std::vector<at::Tensor>;

struct ForwardBackward {
  // Returns the output and puts what backward needs of its tensors into `saved`. Runs without
  // gradient recording.
  std::function<at::Tensor(const Tensors& inputs, Tensors& saved)> forward;
  // d loss / d inputs, one for each, from d loss / d output. Weights are no inputs: a backward
  // writes their gradient into Parameter::grad itself, so that nothing is copied to be reduced.
  std::function<Tensors(const Tensors& saved, const at::Tensor& grad_output)> backward;
};

// The output, recorded for backward when gradient mode is on and an input requires a gradient.
at::Tensor apply_operator(const Tensors& inputs, ForwardBackward functions);

}  // namespace packtrain
