// A block handles some rows, a thread one column after another of a row. Modules are few, so a
// thread finds that of its column by a scan.
#include <cuda_bf16.h>

#include "framework/device/cuda/check.h"
#include "models/ops/cuda/vector.cuh"
#include "models/ops/linear/own_rows_launch.h"

namespace packtrain {
namespace {

constexpr int kThreads = 256;

template <class Value>
__global__ void __launch_bounds__(kThreads) scale_own_rows_kernel(const OwnRowsArguments a) {
  const std::int64_t i = std::int64_t{blockIdx.x} * kThreads + threadIdx.x;
  if (i >= a.num_rows * a.width) return;
  const std::int64_t row = i / a.width;
  const auto column = static_cast<int>(i % a.width);
  int m = 0;
  while (column >= a.modules[m].end) ++m;
  const ScaledModule& module = a.modules[m];
  Value* const s = static_cast<Value*>(a.s) + row * a.stride + column;
  const bool is_own = row >= a.begins[module.adapter] && row < a.begins[module.adapter + 1];
  const float value = is_own ? device::to_float(*s) * module.scale : 0.0F;
  *s = device::from_float<Value>(value);
}

template <class Value>
void launch(const OwnRowsArguments& a, cudaStream_t stream) {
  const std::int64_t num_blocks = (a.num_rows * a.width + kThreads - 1) / kThreads;
  scale_own_rows_kernel<Value><<<static_cast<unsigned>(num_blocks), kThreads, 0, stream>>>(a);
  PACKTRAIN_CUDA_CHECK(cudaGetLastError());
}

}  // namespace

void launch_scale_own_rows(const OwnRowsArguments& arguments, void* stream) {
  const auto on = static_cast<cudaStream_t>(stream);
  if (arguments.dtype == DataType::kFloat32) {
    launch<float>(arguments, on);
  } else {
    launch<__nv_bfloat16>(arguments, on);
  }
}

}  // namespace packtrain
