#include "models/ops/linear/lora_gemm_cuda.h"

#include <ATen/ops/empty.h>

#include <algorithm>

#include "framework/device/cuda/check.h"
#include "models/ops/cuda/current_stream.h"
#include "models/ops/cuda/gradient_target.h"
#include "models/ops/cuda/hopper/available.h"

namespace packtrain {
namespace {

constexpr std::int64_t kVector = 8;  // elements of 16 bytes
constexpr std::int64_t kMaxSkinnyRank = 64;

bool is_aligned(const at::Tensor& x) {
  return reinterpret_cast<std::uintptr_t>(x.const_data_ptr()) % 16 == 0;
}

bool is_matrix_for_tma(const at::Tensor& x) {
  return x.is_cuda() && x.scalar_type() == at::kBFloat16 && x.dim() == 2 &&
         x.size(1) % kVector == 0 && x.stride(1) == 1 && x.stride(0) % kVector == 0 &&
         x.stride(0) >= x.size(1) && is_aligned(x);
}

bool ranks_are_vectors(const LoraModules& modules) {
  return std::ranges::all_of(modules,
                             [](const LoraModule& module) { return module.rank % kVector == 0; });
}

LoraGemmArguments gemm_arguments(const at::Tensor& out, const LoraGemmOperands& operands) {
  LoraGemmArguments a;
  a.left = operands.left.const_data_ptr();
  a.right = operands.weight.const_data_ptr();
  a.low = operands.low.const_data_ptr();
  a.out = out.data_ptr();
  a.left_stride = operands.left.stride(0);
  a.right_stride = operands.weight.stride(0);
  a.low_stride = operands.low.stride(0);
  a.out_stride = out.stride(0);
  if (operands.addend.defined()) {
    a.addend = operands.addend.const_data_ptr();
    a.addend_stride = operands.addend.stride(0);
  }
  if (operands.bias.defined()) a.bias = operands.bias.const_data_ptr();
  a.num_rows = static_cast<int>(out.size(0));
  a.width = static_cast<int>(out.size(1));
  a.depth = static_cast<int>(operands.left.size(1));
  a.low_width = static_cast<int>(operands.low.size(1));
  return a;
}

SkinnyGemmArguments skinny_arguments(SkinnyGemmOutputs outputs, const at::Tensor& wide,
                                     const at::Tensor& low) {
  SkinnyGemmArguments a;
  a.outputs = outputs;
  a.wide = wide.const_data_ptr();
  a.s = low.const_data_ptr();
  a.wide_stride = wide.stride(0);
  a.s_stride = low.stride(0);
  a.num_rows = static_cast<int>(wide.size(0));
  a.width = static_cast<int>(wide.size(1));
  a.low_width = static_cast<int>(low.size(1));
  return a;
}

void add_module_of_a(SkinnyGemmArguments& arguments, const Parameter& a) {
  SkinnyGemmModule& module = arguments.modules[arguments.num_modules++];
  module.factor = a.value.const_data_ptr();
  module.rank = static_cast<int>(a.value.size(0));
  module.num_columns = static_cast<int>(a.value.size(1));
}

int num_processors() {
  int device = 0;
  int count = 0;
  PACKTRAIN_CUDA_CHECK(cudaGetDevice(&device));
  PACKTRAIN_CUDA_CHECK(cudaDeviceGetAttribute(&count, cudaDevAttrMultiProcessorCount, device));
  return count;
}

// `rank` is that of the factor.
bool skinny_gemm_takes(const at::Tensor& wide, std::int64_t num_modules, const Parameter& factor,
                       std::int64_t rank) {
  const at::Tensor& grad = factor.grad;
  return is_matrix_for_tma(wide) && wide.size(0) > 0 && num_modules <= kMaxSkinnyGemmModules &&
         rank % kVector == 0 && rank <= kMaxSkinnyRank && factor.value.is_contiguous() &&
         factor.value.scalar_type() == at::kBFloat16 &&
         (!grad.defined() || (grad.is_contiguous() && is_aligned(grad)));
}

}  // namespace

bool has_lora_kernels() {
  return has_hopper_kernels();
}

bool lora_gemm_takes(const LoraGemmOperands& operands, const LoraModules& modules,
                     std::span<const at::Tensor> factors) {
  const auto takes = [](const at::Tensor& x) { return is_matrix_for_tma(x); };
  return takes(operands.left) && takes(operands.weight) && takes(operands.low) &&
         std::ranges::all_of(factors,
                             [&](const at::Tensor& x) { return takes(x) && x.is_contiguous(); }) &&
         ranks_are_vectors(modules) && modules.size() <= kMaxLoraGemmModules &&
         operands.left.size(0) > 0 && (!operands.addend.defined() || takes(operands.addend)) &&
         (!operands.bias.defined() || is_aligned(operands.bias));
}

bool lora_gradients_take(const at::Tensor& grad_output, const at::Tensor& s,
                         const LoraModules& modules, std::span<const Parameter* const> b) {
  if (!is_matrix_for_tma(s)) return false;
  for (std::size_t m = 0; m < modules.size(); ++m) {
    if (!skinny_gemm_takes(grad_output, std::ssize(modules), *b[m], modules[m].rank)) return false;
  }
  return true;
}

bool lora_low_rank_takes(const at::Tensor& x, const Parameter& a) {
  return skinny_gemm_takes(x, 1, a, a.value.size(0));
}

LoraGemmArguments lora_gemm_forward_arguments(const at::Tensor& out,
                                              const LoraGemmOperands& operands,
                                              const LoraModules& modules,
                                              std::span<const Parameter* const> b) {
  LoraGemmArguments a = gemm_arguments(out, operands);
  int low_begin = 0;
  for (std::size_t m = 0; m < modules.size(); ++m) {
    const auto rank = static_cast<int>(modules[m].rank);
    a.modules[a.num_modules++] = {b[m]->value.const_data_ptr(), rank, low_begin,
                                  static_cast<int>(modules[m].begin),
                                  static_cast<int>(modules[m].num_rows)};
    low_begin += rank;
  }
  return a;
}

LoraGemmArguments lora_gemm_backward_arguments(const at::Tensor& out,
                                               const LoraGemmOperands& operands,
                                               const Parameter& a) {
  LoraGemmArguments arguments = gemm_arguments(out, operands);
  arguments.num_modules = 1;
  arguments.modules[0] = {a.value.const_data_ptr(), arguments.low_width, 0, 0, arguments.width};
  return arguments;
}

SkinnyGemmArguments lora_gradients_arguments(const at::Tensor& low, const at::Tensor& grad_output,
                                             const at::Tensor& s, const LoraModules& modules,
                                             std::span<const Parameter* const> b) {
  SkinnyGemmArguments a = skinny_arguments(SkinnyGemmOutputs::kBoth, grad_output, s);
  a.low = low.data_ptr();
  int low_begin = 0;
  for (std::size_t m = 0; m < modules.size(); ++m) {
    SkinnyGemmModule& module = a.modules[a.num_modules++];
    module.factor = b[m]->value.const_data_ptr();
    module.target = gradient_target(b[m], "lora_B");
    module.rank = static_cast<int>(modules[m].rank);
    module.low_begin = low_begin;
    module.begin = static_cast<int>(modules[m].begin);
    module.num_columns = static_cast<int>(modules[m].num_rows);
    module.scale = static_cast<float>(modules[m].scale);
    low_begin += module.rank;
  }
  return a;
}

SkinnyGemmArguments lora_low_rank_arguments(const at::Tensor& low, const at::Tensor& x,
                                            const Parameter& a, double scale) {
  SkinnyGemmArguments arguments = skinny_arguments(SkinnyGemmOutputs::kLow, x, low);
  arguments.low = low.data_ptr();
  add_module_of_a(arguments, a);
  arguments.modules[0].scale = static_cast<float>(scale);
  return arguments;
}

SkinnyGemmArguments lora_a_gradient_arguments(const at::Tensor& grad_low_rank, const at::Tensor& x,
                                              const Parameter& a) {
  SkinnyGemmArguments arguments = skinny_arguments(SkinnyGemmOutputs::kWeight, x, grad_low_rank);
  add_module_of_a(arguments, a);
  arguments.modules[0].target = gradient_target(&a, "lora_A");
  return arguments;
}

void run_skinny_gemm(SkinnyGemmArguments& arguments, const at::Tensor& on, int column_warps) {
  plan_skinny_gemm(arguments, num_processors(), column_warps);
  const at::Tensor partials =
      at::empty({low_partials_numel(arguments) + weight_partials_numel(arguments)},
                on.options().dtype(at::kFloat));
  arguments.low_partials = partials.data_ptr<float>();
  arguments.weight_partials = arguments.low_partials + low_partials_numel(arguments);
  launch_skinny_gemm(arguments, current_stream(on));
}

at::Tensor lora_gemm_forward_cuda(const LoraGemmOperands& operands, const LoraModules& modules,
                                  std::span<const Parameter* const> b) {
  at::Tensor out =
      at::empty({operands.left.size(0), operands.weight.size(0)}, operands.left.options());
  launch_lora_gemm_forward(lora_gemm_forward_arguments(out, operands, modules, b),
                           current_stream(out));
  return out;
}

at::Tensor lora_gemm_backward_cuda(const LoraGemmOperands& operands, const Parameter& a) {
  at::Tensor out =
      at::empty({operands.left.size(0), operands.weight.size(1)}, operands.left.options());
  launch_lora_gemm_backward(lora_gemm_backward_arguments(out, operands, a), current_stream(out));
  return out;
}

at::Tensor lora_gradients_cuda(const at::Tensor& grad_output, const at::Tensor& s,
                               const LoraModules& modules, std::span<const Parameter* const> b) {
  at::Tensor low = at::empty({s.size(0), s.size(1)}, s.options());
  SkinnyGemmArguments arguments = lora_gradients_arguments(low, grad_output, s, modules, b);
  run_skinny_gemm(arguments, low, /*column_warps=*/0);
  return low;
}

at::Tensor lora_low_rank_cuda(const at::Tensor& x, const Parameter& a, double scale) {
  at::Tensor low = at::empty({x.size(0), a.value.size(0)}, x.options());
  SkinnyGemmArguments arguments = lora_low_rank_arguments(low, x, a, scale);
  run_skinny_gemm(arguments, low, /*column_warps=*/0);
  return low;
}

void lora_a_gradient_cuda(const at::Tensor& grad_low_rank, const at::Tensor& x,
                          const Parameter& a) {
  SkinnyGemmArguments arguments = lora_a_gradient_arguments(grad_low_rank, x, a);
  run_skinny_gemm(arguments, x, /*column_warps=*/0);
}

}  // namespace packtrain
