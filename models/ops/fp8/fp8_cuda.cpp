#include <ATen/ops/empty.h>
#include <ATen/ops/zeros.h>
#include <c10/cuda/CUDAGuard.h>
#include <fmt/format.h>

#include "framework/core/error.h"
#include "framework/device/cuda/architecture.h"
#include "models/ops/cuda/current_stream.h"
#include "models/ops/fp8/fp8.h"
#include "models/ops/fp8/fp8_cuda.h"
#include "models/ops/fp8/fp8_launch.h"

namespace packtrain {
namespace {

std::uint8_t* codes_or_null(const at::Tensor& codes) {
  return codes.defined() ? static_cast<std::uint8_t*>(codes.data_ptr()) : nullptr;
}

}  // namespace

at::Tensor fp8_aligned(const at::Tensor& x) {
  constexpr std::uintptr_t kBytes = 16;
  const bool is_aligned = reinterpret_cast<std::uintptr_t>(x.const_data_ptr()) % kBytes == 0;
  return is_aligned ? x : x.clone();
}

Fp8FoundAmax find_fp8_amax(const at::Tensor& x, const at::Tensor& known, void* stream) {
  if (known.defined()) return {{fp8_amax_slots(known), static_cast<int>(known.numel())}, known};
  const int num_matrices = x.dim() == 3 ? static_cast<int>(x.size(0)) : 1;
  const std::int64_t numel = x.numel() / num_matrices;
  const int count = num_fp8_amax_partials(numel);
  const at::Tensor partials = at::empty({num_matrices, count}, x.options().dtype(at::kInt));
  const DataType dtype = float_type_of(x, "fp8");
  launch_fp8_amax({x.const_data_ptr(), fp8_amax_slots(partials), numel, dtype, num_matrices},
                  stream);
  return {{fp8_amax_slots(partials), count}, partials};
}

void fp8_cast_cuda(const at::Tensor& x, const at::Tensor& scale, const Fp8Cast& cast,
                   const Fp8Copies& copies) {
  const c10::cuda::CUDAGuard guard(x.device());
  if (x.numel() == 0) {
    scale.fill_(1);
    return;
  }
  void* stream = current_stream(x);
  Fp8CastArguments arguments;
  const at::Tensor values = fp8_aligned(x);
  arguments.values = values.const_data_ptr();
  arguments.scale = cast.has_known_scale ? nullptr : scale.data_ptr<float>();
  arguments.rows = codes_or_null(copies.rows);
  arguments.columns = codes_or_null(copies.columns);
  arguments.num_rows = x.size(-2);
  arguments.num_columns = x.size(-1);
  arguments.padded_rows = fp8_padded(x.size(-2));
  if (x.dim() == 3) {
    arguments.num_matrices = static_cast<int>(x.size(0));
    arguments.scale_stride = static_cast<int>(scale.size(1));
  }
  arguments.dtype = float_type_of(x, "fp8");
  arguments.format = cast.format;
  Fp8FoundAmax amax;
  if (cast.has_known_scale) {
    arguments.amax = {reinterpret_cast<const std::uint32_t*>(scale.const_data_ptr<float>() + 1), 1};
    arguments.amax_stride = arguments.scale_stride;
  } else {
    amax = find_fp8_amax(values, cast.amax, stream);
    arguments.amax = amax.partials;
    arguments.amax_stride = amax.partials.count;
  }
  launch_fp8_cast(arguments, stream);
}

at::Tensor make_fp8_amax_cuda(const at::Tensor& x) {
  return at::zeros({kFp8AmaxSlots}, x.options().dtype(at::kInt));
}

int compute_capability() {
  return 10 * device_attribute(cudaDevAttrComputeCapabilityMajor) +
         device_attribute(cudaDevAttrComputeCapabilityMinor);
}

bool has_fp8_products_cuda(at::Device device) {
  const c10::cuda::CUDAGuard guard(device);
  return compute_capability() >= kMinFp8Capability;
}

void check_fp8_device_cuda(at::Device device) {
  if (has_fp8_products_cuda(device)) return;
  const c10::cuda::CUDAGuard guard(device);
  const int capability = compute_capability();
  if (capability >= kMinFp8Capability) return;
  throw Error(ErrorCategory::kDevice,
              fmt::format("precision.linear is fp8_tensor, but this GPU has compute capability "
                          "{}.{}, and products of 8-bit floats need 8.9 or newer",
                          capability / 10, capability % 10),
              "Set precision.linear: bf16, or use a GPU of Ada, Hopper or newer.");
}

}  // namespace packtrain
