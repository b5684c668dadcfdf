#include "models/ops/attention/attention.h"

#include <ATen/ops/cat.h>

#include <string>

#include "framework/support/error.h"
#include "models/ops/attention/flash.h"
#include "models/ops/attention/per_sequence.h"
#include "models/ops/autograd.h"

namespace packtrain {
namespace {

bool uses_flash(const at::Tensor& qkv) {
  return qkv.is_cuda() && qkv.scalar_type() == at::kBFloat16;
}

void check_shape(const at::Tensor& qkv, const AttentionShape& shape) {
  if (uses_flash(qkv) && (shape.head_dim % 8 != 0 || shape.head_dim > 256)) {
    throw Error(ErrorCategory::kConfig,
                "attention: head_dim is " + std::to_string(shape.head_dim) +
                    ", want a multiple of 8 up to 256 in bfloat16 on CUDA",
                "train in fp32, or change the model's head_dim");
  }
}

}  // namespace

AttentionOutput attention_forward(const at::Tensor& qkv, const AttentionShape& shape,
                                  const DeviceBatch& batch) {
  check_shape(qkv, shape);
  return uses_flash(qkv) ? flash_forward(qkv, shape, batch)
                         : per_sequence_forward(qkv, shape, batch);
}

HeadGradients attention_backward(const at::Tensor& grad_output, const at::Tensor& qkv,
                                 const at::Tensor& y, const std::vector<at::Tensor>& saved,
                                 const AttentionShape& shape, const DeviceBatch& batch) {
  return uses_flash(qkv) ? flash_backward(grad_output, qkv, y, saved, shape, batch)
                         : per_sequence_backward(grad_output, qkv, y, saved, shape, batch);
}

at::Tensor attention(const at::Tensor& qkv, const AttentionShape& shape, const DeviceBatch& batch) {
  return apply_operator(
      {qkv}, {.forward =
                  [shape, &batch](const Tensors& inputs, Tensors& saved) {
                    AttentionOutput output = attention_forward(inputs[0], shape, batch);
                    saved = {inputs[0], output.y};
                    saved.insert(saved.end(), output.saved.begin(), output.saved.end());
                    return output.y;
                  },
              .backward =
                  [shape, &batch](const Tensors& saved, const at::Tensor& grad_output) {
                    const Tensors rest(saved.begin() + 2, saved.end());
                    const HeadGradients grad =
                        attention_backward(grad_output, saved[0], saved[1], rest, shape, batch);
                    return Tensors{at::cat({grad.query, grad.key, grad.value}, 1)};
                  }});
}

}  // namespace packtrain
