// Boundaries of sequences on a GPU.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <span>

namespace packtrain {

// Throws Error(kInternal), which names `what`, while a CUDA graph captures the tensor's stream.
void refuse_graph_capture(const at::Tensor& on_device, const char* what);

// Copies host integers to the device without waiting. Returns int32 [values]. Throws
// Error(kInternal), which names `what`, while a CUDA graph captures the stream: the graph would
// keep the values of its capture.
at::Tensor to_device_ints(std::span<const std::int32_t> values, at::Device device,
                          const char* what);

}  // namespace packtrain
