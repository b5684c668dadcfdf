#include "models/ops/attention/wide/attention.h"

#include <ATen/ops/empty.h>

#include "framework/device/cuda/check.h"
#include "models/ops/attention/packed_heads.h"
#include "models/ops/attention/wide/launch.h"
#include "models/ops/cuda/current_stream.h"

namespace packtrain {
namespace {

int find_shared_bytes() {
  int device = 0;
  int bytes = 0;
  if (cudaGetDevice(&device) != cudaSuccess) {
    cudaGetLastError();  // a plan for a machine with a GPU
    return kWideSharedBytes;
  }
  PACKTRAIN_CUDA_CHECK(
      cudaDeviceGetAttribute(&bytes, cudaDevAttrMaxSharedMemoryPerBlockOptin, device));
  return bytes;
}

WideAttentionArguments arguments_of(AttentionBackend backend, const PackedHeads& in,
                                    const AttentionShape& shape) {
  WideAttentionArguments arguments;
  arguments.query = in.heads.query.const_data_ptr();
  arguments.key = in.heads.key.const_data_ptr();
  arguments.value = in.heads.value.const_data_ptr();
  arguments.query_stride = in.heads.query.stride(0);
  arguments.key_stride = in.heads.key.stride(0);
  arguments.cu_queries = in.cu_queries.const_data_ptr<std::int32_t>();
  arguments.cu_keys = in.cu_keys.const_data_ptr<std::int32_t>();
  arguments.num_rows = in.heads.query.size(0);
  arguments.num_keys = in.heads.key.size(0);
  arguments.num_sequences = static_cast<int>(in.num_sequences());
  arguments.num_heads = static_cast<int>(shape.num_heads);
  arguments.num_kv_heads = static_cast<int>(shape.num_kv_heads);
  arguments.window = static_cast<int>(shape.pattern.within(in.max_keys).window);
  arguments.scale = static_cast<float>(attention_scale(shape));
  arguments.is_small = backend == AttentionBackend::kWideSmall;
  return arguments;
}

}  // namespace

int wide_shared_bytes() {
  static const int bytes = find_shared_bytes();
  return bytes;
}

AttentionOutput wide_forward(AttentionBackend backend, const at::Tensor& qkv,
                             const AttentionShape& shape, DeviceBatch& batch) {
  const PackedHeads in = packed_heads(qkv, shape, batch);
  const at::Tensor y = at::empty({qkv.size(0), shape.num_heads * shape.head_dim}, qkv.options());
  const at::Tensor logsumexp =
      at::empty({qkv.size(0), shape.num_heads}, qkv.options().dtype(at::kFloat));
  WideAttentionArguments arguments = arguments_of(backend, in, shape);
  arguments.output = y.data_ptr();
  arguments.logsumexp = logsumexp.data_ptr<float>();
  if (qkv.size(0) > 0) launch_wide_attention_forward(arguments, current_stream(qkv));
  return {y, {logsumexp}};
}

HeadGradients wide_backward(AttentionBackend backend, const at::Tensor& grad_output,
                            const at::Tensor& qkv, const at::Tensor& y,
                            const std::vector<at::Tensor>& saved, const AttentionShape& shape,
                            DeviceBatch& batch) {
  const PackedHeads in = packed_heads(qkv, shape, batch);
  const HeadGradients grad = {at::empty(in.heads.query.sizes(), qkv.options()),
                              at::empty(in.heads.key.sizes(), qkv.options()),
                              at::empty(in.heads.value.sizes(), qkv.options())};
  const at::Tensor dense_grad = grad_output.contiguous();
  const at::Tensor delta = at::empty(saved[0].sizes(), saved[0].options());
  WideAttentionArguments arguments = arguments_of(backend, in, shape);
  arguments.output = y.data_ptr();
  arguments.logsumexp = saved[0].data_ptr<float>();
  arguments.grad_output = dense_grad.const_data_ptr();
  arguments.delta = delta.data_ptr<float>();
  arguments.grad_query = grad.query.data_ptr();
  arguments.grad_key = grad.key.data_ptr();
  arguments.grad_value = grad.value.data_ptr();
  if (qkv.size(0) > 0) {
    void* const stream = current_stream(qkv);
    launch_wide_attention_backward_queries(arguments, stream);
    launch_wide_attention_backward_keys(arguments, stream);
  }
  return gradients_of_rows(grad, in);
}

}  // namespace packtrain
