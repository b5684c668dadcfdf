// Replaces the CUDA operators of 8-bit floats in a build without CUDA.
#include "models/ops/cuda/not_built.h"
#include "models/ops/fp8/fp8.h"
#include "models/ops/fp8/fp8_block.h"
#include "models/ops/fp8/fp8_stored.h"
#include "models/ops/fp8/fp8_weight.h"
#include "models/ops/matmul/matmul.h"

namespace packtrain {

void fp8_gemm_cuda(const at::Tensor& /*out*/, const Fp8Operand& /*left*/,
                   const Fp8Operand& /*right*/, const GemmTerms& /*terms*/,
                   const Fp8Gemm& /*options*/, const GemmTiming& /*timing*/) {
  throw_cuda_not_built("fp8_gemm");
}

void fp8_cast_cuda(const at::Tensor& /*x*/, const at::Tensor& /*scale*/, const Fp8Cast& /*cast*/,
                   const Fp8Copies& /*copies*/) {
  throw_cuda_not_built("fp8_cast");
}

at::Tensor make_fp8_amax_cuda(const at::Tensor& /*x*/) {
  throw_cuda_not_built("fp8_amax");
}

void fp8_weight_scales_cuda(const at::Tensor& /*amax*/, const at::Tensor& /*scales*/) {
  throw_cuda_not_built("fp8_weight_scales");
}

void fp8_decode_cuda(const at::Tensor& /*codes*/, const at::Tensor& /*scale*/,
                     const at::Tensor& /*values*/) {
  throw_cuda_not_built("fp8_decode");
}

void fp8_transpose_cuda(const at::Tensor& /*codes*/, const at::Tensor& /*columns*/) {
  throw_cuda_not_built("fp8_transpose");
}

bool has_fp8_products_cuda(at::Device /*device*/) {
  throw_cuda_not_built("fp8");
}

void check_fp8_device_cuda(at::Device /*device*/) {
  throw_cuda_not_built("fp8");
}

void fp8_group_cast_cuda(const at::Tensor& /*x*/, const Fp8GroupCast& /*cast*/,
                         const Fp8Groups& /*groups*/) {
  throw_cuda_not_built("fp8_group_cast");
}

void fp8_block_cast_cuda(const at::Tensor& /*weight*/, bool /*transposed*/,
                         const Fp8Operand& /*to*/) {
  throw_cuda_not_built("fp8_block_cast");
}

void check_fp8_block_device_cuda(at::Device /*device*/) {
  throw_cuda_not_built("fp8_block");
}

}  // namespace packtrain
