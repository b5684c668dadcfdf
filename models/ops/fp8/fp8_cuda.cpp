#include <ATen/ops/empty.h>
#include <ATen/ops/zeros.h>
#include <c10/cuda/CUDAGuard.h>
#include <fmt/format.h>

#include "framework/core/error.h"
#include "framework/device/cuda/architecture.h"
#include "models/ops/cuda/current_stream.h"
#include "models/ops/fp8/fp8.h"
#include "models/ops/fp8/fp8_launch.h"

namespace packtrain {
namespace {

constexpr int kMinCapability = 89;

// Kernels read 16-byte vectors. A weight in a flat buffer may begin elsewhere.
at::Tensor aligned(const at::Tensor& x) {
  constexpr std::uintptr_t kBytes = 16;
  const bool is_aligned = reinterpret_cast<std::uintptr_t>(x.const_data_ptr()) % kBytes == 0;
  return is_aligned ? x : x.clone();
}

std::uint8_t* codes_or_null(const at::Tensor& codes) {
  return codes.defined() ? static_cast<std::uint8_t*>(codes.data_ptr()) : nullptr;
}

}  // namespace

void fp8_cast_cuda(const at::Tensor& x, const at::Tensor& scale, const Fp8Cast& cast,
                   const Fp8Copies& copies) {
  const c10::cuda::CUDAGuard guard(x.device());
  if (x.numel() == 0) {
    scale.fill_(1);
    return;
  }
  void* stream = current_stream(x);
  const DataType dtype = float_type_of(x, "fp8");
  Fp8CastArguments arguments;
  const at::Tensor values = aligned(x);
  arguments.values = values.const_data_ptr();
  arguments.scale = scale.data_ptr<float>();
  arguments.rows = codes_or_null(copies.rows);
  arguments.columns = codes_or_null(copies.columns);
  arguments.num_rows = x.size(0);
  arguments.num_columns = x.size(1);
  arguments.padded_rows = fp8_padded(x.size(0));
  arguments.dtype = dtype;
  arguments.format = cast.format;
  at::Tensor partials;
  if (cast.has_known_scale) {
    arguments.amax = {reinterpret_cast<const std::uint32_t*>(arguments.scale + 1), 1};
  } else if (cast.amax.defined()) {
    arguments.amax = {fp8_amax_slots(cast.amax), static_cast<int>(cast.amax.numel())};
  } else {
    const int count = num_fp8_amax_partials(x.numel());
    partials = at::empty({count}, x.options().dtype(at::kInt));
    launch_fp8_amax({arguments.values, fp8_amax_slots(partials), x.numel(), dtype}, stream);
    arguments.amax = {fp8_amax_slots(partials), count};
  }
  launch_fp8_cast(arguments, stream);
}

at::Tensor make_fp8_amax_cuda(const at::Tensor& x) {
  return at::zeros({kFp8AmaxSlots}, x.options().dtype(at::kInt));
}

void check_fp8_device_cuda(at::Device device) {
  const c10::cuda::CUDAGuard guard(device);
  const int major = device_attribute(cudaDevAttrComputeCapabilityMajor);
  const int minor = device_attribute(cudaDevAttrComputeCapabilityMinor);
  if (10 * major + minor >= kMinCapability) return;
  throw Error(ErrorCategory::kDevice,
              fmt::format("precision.linear is fp8_tensor, but this GPU has compute capability "
                          "{}.{}, and products of 8-bit floats need 8.9 or newer",
                          major, minor),
              "Set precision.linear: bf16, or use a GPU of Ada, Hopper or newer.");
}

}  // namespace packtrain
