#include "models/ops/attention/attention.h"

#include "models/ops/attention/backends.h"
#include "models/ops/attention/cudnn.h"
#include "models/ops/attention/flash.h"
#include "models/ops/attention/per_sequence.h"

namespace packtrain {
namespace {

AttentionBackend backend_for(const at::Tensor& qkv, const AttentionShape& shape) {
  return choose_attention_backend(shape, qkv.device(), qkv.scalar_type());
}

}  // namespace

void prepare_attention(const AttentionShape& shape, std::int64_t max_tokens, at::Device device,
                       at::ScalarType dtype) {
  if (choose_attention_backend(shape, device, dtype) == AttentionBackend::kCudnn) {
    set_cudnn_plan_tokens(max_tokens);
  }
}

AttentionOutput attention_forward(const at::Tensor& qkv, const AttentionShape& shape,
                                  const DeviceBatch& batch) {
  switch (backend_for(qkv, shape)) {
    case AttentionBackend::kCudnn:
      return cudnn_forward(qkv, shape, batch);
    case AttentionBackend::kFlash:
      return flash_forward(qkv, shape, batch);
    default:
      return per_sequence_forward(qkv, shape, batch);
  }
}

HeadGradients attention_backward(const at::Tensor& grad_output, const at::Tensor& qkv,
                                 const at::Tensor& y, const std::vector<at::Tensor>& saved,
                                 const AttentionShape& shape, const DeviceBatch& batch) {
  switch (backend_for(qkv, shape)) {
    case AttentionBackend::kCudnn:
      return cudnn_backward(grad_output, qkv, y, saved, shape, batch);
    case AttentionBackend::kFlash:
      return flash_backward(grad_output, qkv, y, saved, shape, batch);
    default:
      return per_sequence_backward(grad_output, qkv, y, saved, shape, batch);
  }
}

}  // namespace packtrain
