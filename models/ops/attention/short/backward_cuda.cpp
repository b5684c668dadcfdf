#include <ATen/ops/empty.h>

#include "framework/core/error.h"
#include "framework/device/cuda/check.h"
#include "models/ops/attention/short/attention.h"
#include "models/ops/attention/short/launch.h"
#include "models/ops/cuda/current_stream.h"
#include "models/ops/cuda/hopper/available.h"

namespace packtrain {
namespace {

ShortAttentionArguments arguments_of(const PackedHeads& in, const at::Tensor& y,
                                     const at::Tensor& stats, const AttentionShape& shape,
                                     const ShortUnits& units) {
  ShortAttentionArguments arguments;
  arguments.query = in.heads.query.const_data_ptr();
  arguments.key = in.heads.key.const_data_ptr();
  arguments.value = in.heads.value.const_data_ptr();
  arguments.query_stride = in.heads.query.stride(0);
  arguments.key_stride = in.heads.key.stride(0);
  arguments.output = y.const_data_ptr();
  arguments.logsumexp = stats.const_data_ptr<float>();
  arguments.units = static_cast<const AttentionUnit*>(units.units.const_data_ptr());
  arguments.cu_sequences = in.cu_queries.const_data_ptr<std::int32_t>();
  arguments.num_rows = in.heads.query.size(0);
  arguments.num_keys = in.heads.key.size(0);
  arguments.num_units = units.num_units;
  arguments.num_tiles = units.num_tiles;
  arguments.num_heads = static_cast<int>(shape.num_heads);
  arguments.num_kv_heads = static_cast<int>(shape.num_kv_heads);
  arguments.head_dim = static_cast<int>(shape.head_dim);
  arguments.window = static_cast<int>(shape.pattern.within(in.max_keys).window);
  arguments.scale = static_cast<float>(attention_scale(shape));
  return arguments;
}

ShortKernels find_short_kernels() {
  ShortKernels kernels;
  int device = 0;
  int shared = 0;
  PACKTRAIN_CUDA_CHECK(cudaGetDevice(&device));
  PACKTRAIN_CUDA_CHECK(
      cudaDeviceGetAttribute(&kernels.num_multiprocessors, cudaDevAttrMultiProcessorCount, device));
  PACKTRAIN_CUDA_CHECK(
      cudaDeviceGetAttribute(&shared, cudaDevAttrMaxSharedMemoryPerBlockOptin, device));
  kernels.has_hopper = has_hopper_kernels();
  kernels.fit = shared >= kShortAttentionSharedBytes;
  return kernels;
}

// Units are made of boundaries on the host. A graph would keep those of its capture.
void refuse_capture(void* stream) {
  cudaStreamCaptureStatus status = cudaStreamCaptureStatusNone;
  PACKTRAIN_CUDA_CHECK(cudaStreamIsCapturing(static_cast<cudaStream_t>(stream), &status));
  if (status == cudaStreamCaptureStatusNone) return;
  throw Error(ErrorCategory::kInternal,
              "attention: a CUDA graph cannot have the kernels of short sequences, whose units are "
              "made on the host");
}

}  // namespace

ShortKernels short_kernels() {
  static const ShortKernels kernels = find_short_kernels();
  return kernels;
}

void short_backward(const at::Tensor& grad_output, const PackedHeads& in, const at::Tensor& y,
                    const at::Tensor& stats, const AttentionShape& shape, const ShortUnits& units,
                    const HeadGradients& grad) {
  ShortAttentionArguments arguments = arguments_of(in, y, stats, shape, units);
  const at::Tensor workspace = at::empty(
      {shape.num_heads * units.num_tiles * kUnitQueries * shape.head_dim}, stats.options());
  arguments.grad_output = grad_output.const_data_ptr();
  arguments.grad_query = grad.query.data_ptr();
  arguments.grad_key = grad.key.data_ptr();
  arguments.grad_value = grad.value.data_ptr();
  arguments.workspace = workspace.data_ptr<float>();
  void* const stream = current_stream(in.heads.query);
  refuse_capture(stream);
  if (short_kernels().has_hopper && hopper_kernel_serves(shape.head_dim)) {
    launch_short_attention_backward_hopper(arguments, stream);
  } else {
    launch_short_attention_backward(arguments, stream);
  }
}

}  // namespace packtrain
