#include <c10/cuda/CUDAGuard.h>
#include <fmt/format.h>

#include "framework/core/error.h"
#include "models/ops/cuda/current_stream.h"
#include "models/ops/fp8/fp8.h"
#include "models/ops/fp8/fp8_block.h"
#include "models/ops/fp8/fp8_block_launch.h"
#include "models/ops/fp8/fp8_cuda.h"

namespace packtrain {
namespace {

Fp8BlockCastArguments arguments_of(const at::Tensor& x) {
  Fp8BlockCastArguments arguments;
  arguments.values = x.const_data_ptr();
  arguments.num_rows = x.size(0);
  arguments.num_columns = x.size(1);
  arguments.padded_rows = fp8_padded(x.size(0));
  arguments.dtype = float_type_of(x, "fp8");
  return arguments;
}

void set_rows(Fp8BlockCastArguments& arguments, const Fp8Operand& to) {
  arguments.rows = static_cast<std::uint8_t*>(to.codes.data_ptr());
  arguments.row_scales = to.scale.data_ptr<float>();
}

void set_columns(Fp8BlockCastArguments& arguments, const Fp8Operand& to) {
  arguments.columns = static_cast<std::uint8_t*>(to.codes.data_ptr());
  arguments.column_scales = to.scale.data_ptr<float>();
}

}  // namespace

void fp8_group_cast_cuda(const at::Tensor& x, const Fp8GroupCast& cast, const Fp8Groups& groups) {
  const c10::cuda::CUDAGuard guard(x.device());
  const bool has_tensor_scale = cast.columns == Fp8ColumnScales::kTensor;
  if (x.numel() == 0) {
    if (has_tensor_scale) groups.columns.scale.fill_(1);
    return;
  }
  void* stream = current_stream(x);
  const at::Tensor values = fp8_aligned(x);
  Fp8BlockCastArguments arguments = arguments_of(values);
  if (cast.rows) set_rows(arguments, groups.rows);
  if (cast.columns != Fp8ColumnScales::kNone) set_columns(arguments, groups.columns);
  Fp8FoundAmax amax;
  if (has_tensor_scale) {
    amax = find_fp8_amax(values, cast.amax, stream);
    arguments.amax = amax.partials;
    arguments.column_format = cast.tensor_format;
  }
  launch_fp8_group_cast(arguments, stream);
}

void fp8_block_cast_cuda(const at::Tensor& weight, bool transposed, const Fp8Operand& to) {
  const c10::cuda::CUDAGuard guard(weight.device());
  if (weight.numel() == 0) return;
  const at::Tensor values = fp8_aligned(weight);
  Fp8BlockCastArguments arguments = arguments_of(values);
  if (transposed) {
    set_columns(arguments, to);
  } else {
    set_rows(arguments, to);
  }
  launch_fp8_block_cast(arguments, current_stream(weight));
}

void check_fp8_block_device_cuda(at::Device device) {
  constexpr int kHopper = 90;
  const c10::cuda::CUDAGuard guard(device);
  const int capability = compute_capability();
  if (capability == kHopper) return;
  throw Error(ErrorCategory::kDevice,
              fmt::format("precision.linear is fp8_block, but this GPU has compute capability "
                          "{}.{}, and cuBLASLt has products with scales of blocks for 9.0 alone",
                          capability / 10, capability % 10),
              capability < kMinFp8Capability
                  ? "Set precision.linear: bf16, or use a GPU of Hopper."
                  : "Set precision.linear: fp8_tensor, or use a GPU of Hopper.");
}

}  // namespace packtrain
