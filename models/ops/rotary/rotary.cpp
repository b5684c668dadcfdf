#include "models/ops/rotary/rotary.h"

#include <ATen/ops/cat.h>
#include <ATen/ops/cos.h>
#include <ATen/ops/mul.h>
#include <ATen/ops/sin.h>

namespace packtrain {
namespace {

// Element 0 (or 1) of each pair of the heads x [T, heads, D], as a view [T, heads, P].
at::Tensor pair_element(const at::Tensor& x, std::int64_t num_pairs, bool interleaved,
                        std::int64_t element) {
  if (!interleaved) return x.narrow(2, element * num_pairs, num_pairs);
  return x.narrow(2, 0, 2 * num_pairs).slice(2, element, {}, 2);
}

// Rotates the heads x [T, heads, D] in place. `direction` is 1 for forward and -1 for backward.
void turn_(const at::Tensor& x, const at::Tensor& position_ids, const at::Tensor& frequencies,
           const RotaryOptions& options, double direction) {
  const at::Tensor angles =
      at::mul(position_ids.to(at::kFloat).unsqueeze(1), frequencies).unsqueeze(1);
  const at::Tensor cos = at::mul(at::cos(angles), options.scaling);
  const at::Tensor sin = at::mul(at::sin(angles), direction * options.scaling);
  const at::Tensor first = pair_element(x, frequencies.size(-1), options.interleaved, 0);
  const at::Tensor second = pair_element(x, frequencies.size(-1), options.interleaved, 1);
  const at::Tensor turned = at::mul(first, cos).sub_(at::mul(second, sin));
  second.copy_(at::mul(second, cos).add_(at::mul(first, sin)));
  first.copy_(turned);
}

}  // namespace

void rotary_forward_(at::Tensor& qkv, const at::Tensor& position_ids, const at::Tensor& frequencies,
                     const RotaryOptions& options) {
  if (qkv.is_cuda()) return rotary_forward_cuda_(qkv, position_ids, frequencies, options);
  turn_(qkv.narrow(1, 0, options.num_rotated_heads), position_ids, frequencies, options, 1.0);
}

at::Tensor rotary_backward(const at::Tensor& grad_query, const at::Tensor& grad_key,
                           const at::Tensor& grad_value, const at::Tensor& position_ids,
                           const at::Tensor& frequencies, const RotaryOptions& options) {
  if (grad_query.is_cuda()) {
    return rotary_backward_cuda(grad_query, grad_key, grad_value, position_ids, frequencies,
                                options);
  }
  const at::Tensor grad = at::cat({grad_query, grad_key, grad_value}, 1);
  turn_(grad.narrow(1, 0, options.num_rotated_heads), position_ids, frequencies, options, -1.0);
  return grad;
}

}  // namespace packtrain
