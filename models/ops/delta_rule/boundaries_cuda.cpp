#include "models/ops/delta_rule/boundaries_cuda.h"

#include <ATen/ops/empty.h>

#include <algorithm>
#include <string>

#include "framework/core/error.h"
#include "framework/device/cuda/check.h"
#include "models/ops/cuda/current_stream.h"

namespace packtrain {

void refuse_graph_capture(const at::Tensor& on_device, const char* what) {
  cudaStreamCaptureStatus status = cudaStreamCaptureStatusNone;
  PACKTRAIN_CUDA_CHECK(
      cudaStreamIsCapturing(static_cast<cudaStream_t>(current_stream(on_device)), &status));
  if (status == cudaStreamCaptureStatusNone) return;
  throw Error(ErrorCategory::kInternal,
              std::string(what) +
                  ": a CUDA graph cannot have this operator, whose boundaries are copied from "
                  "the host");
}

at::Tensor to_device_ints(std::span<const std::int32_t> values, at::Device device,
                          const char* what) {
  const at::Tensor on_device =
      at::empty({std::ssize(values)}, at::TensorOptions(at::kInt).device(device));
  refuse_graph_capture(on_device, what);
  // libtorch's allocator does not reuse pinned memory before the copy is complete.
  const at::Tensor host =
      at::empty({std::ssize(values)}, at::TensorOptions(at::kInt).pinned_memory(true));
  std::ranges::copy(values, host.data_ptr<std::int32_t>());
  on_device.copy_(host, /*non_blocking=*/true);
  return on_device;
}

}  // namespace packtrain
