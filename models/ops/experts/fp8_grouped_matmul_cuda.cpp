#include "models/ops/experts/fp8_grouped_matmul.h"

#include "models/ops/cuda/current_stream.h"
#include "models/ops/cuda/hopper/available.h"
#include "models/ops/experts/fp8_grouped_matmul_launch.h"

namespace packtrain {

bool has_fp8_grouped_matmul_cuda() {
  return has_hopper_kernels();
}

void fp8_grouped_matmul_cuda(const at::Tensor& out, const Fp8Operand& left,
                             const Fp8Matrices& right, const at::Tensor& ends) {
  Fp8GroupedMatmulArguments arguments;
  arguments.left = left.codes.const_data_ptr();
  arguments.right = right.codes.const_data_ptr();
  arguments.left_scale = left.scale.const_data_ptr<float>();
  arguments.right_scales = right.scales.const_data_ptr<float>();
  arguments.ends = ends.const_data_ptr<std::int32_t>();
  arguments.out = out.data_ptr();
  arguments.num_rows = out.size(0);
  arguments.depth = static_cast<int>(left.codes.size(1));
  arguments.num_columns = static_cast<int>(out.size(1));
  arguments.num_groups = static_cast<int>(ends.size(0));
  arguments.scale_stride = static_cast<int>(right.scales.stride(0));
  arguments.left_format =
      left.codes.scalar_type() == at::kFloat8_e4m3fn ? Fp8Format::kE4M3 : Fp8Format::kE5M2;
  launch_fp8_grouped_matmul(arguments, current_stream(out));
}

}  // namespace packtrain
