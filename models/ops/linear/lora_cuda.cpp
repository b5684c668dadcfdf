#include "models/ops/linear/lora_cuda.h"

#include <ATen/ops/empty.h>

#include <algorithm>

#include "framework/device/cuda/check.h"
#include "models/ops/cuda/current_stream.h"
#include "models/ops/cuda/gradient_target.h"
#include "models/ops/cuda/hopper/available.h"
#include "models/ops/linear/lora_gemm_launch.h"
#include "models/ops/linear/lora_gradients_launch.h"

namespace packtrain {
namespace {

constexpr std::int64_t kVector = 8;  // elements of 16 bytes
constexpr std::int64_t kMaxGradientsRank = 64;
// Below this many rows a product has too few tiles for a GPU.
constexpr std::int64_t kMinFp8Rows = 1024;

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

bool has_few_adapters(const at::Tensor& row_begins) {
  return !row_begins.defined() || row_begins.size(0) - 1 <= kMaxLoraGemmModules;
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
  if (operands.row_begins.defined()) {
    a.row_begins = operands.row_begins.const_data_ptr<std::int32_t>();
    a.num_adapters = static_cast<int>(operands.row_begins.size(0)) - 1;
  }
  return a;
}

// Adds a module of an adapter. Adapters come in rising order.
void add(const LoraGemmModule& module, int adapter, LoraGemmArguments& a) {
  a.modules[a.num_modules++] = module;
  for (int i = adapter + 1; i <= a.num_adapters; ++i) a.first_module[i] = a.num_modules;
}

// Rows of A [R, width] of each adapter.
void add_factors_by_adapter(const at::Tensor& factors, const LoraModules& modules,
                            LoraGemmArguments& a) {
  int begin = 0;
  for (auto module = modules.begin(); module != modules.end();) {
    const int adapter = module->adapter;
    int rank = 0;
    for (; module != modules.end() && module->adapter == adapter; ++module) {
      rank += static_cast<int>(module->rank);
    }
    add({factors.select(0, begin).const_data_ptr(), rank, begin, 0, a.width}, adapter, a);
    begin += rank;
  }
}

LoraGradientsArguments gradients_arguments(const at::Tensor& grad_low_rank,
                                           const at::Tensor& grad_output, const at::Tensor& s,
                                           const LoraModules& modules,
                                           std::span<const Parameter* const> b,
                                           const at::Tensor& row_begins) {
  LoraGradientsArguments a;
  if (row_begins.defined()) {
    a.row_begins = row_begins.const_data_ptr<std::int32_t>();
    a.num_adapters = static_cast<int>(row_begins.size(0)) - 1;
  }
  a.grad_output = grad_output.const_data_ptr();
  a.s = s.const_data_ptr();
  a.grad_low_rank = grad_low_rank.data_ptr();
  a.grad_output_stride = grad_output.stride(0);
  a.s_stride = s.stride(0);
  a.num_rows = static_cast<int>(grad_output.size(0));
  a.width = static_cast<int>(grad_output.size(1));
  a.low_width = static_cast<int>(s.size(1));
  int low_begin = 0;
  for (std::size_t m = 0; m < modules.size(); ++m) {
    LoraGradientsModule& module = a.modules[a.num_modules++];
    module.b = b[m]->value.const_data_ptr();
    module.target = gradient_target(b[m], "lora_B");
    module.rank = static_cast<int>(modules[m].rank);
    module.low_begin = low_begin;
    module.begin = static_cast<int>(modules[m].begin);
    module.num_columns = static_cast<int>(modules[m].num_rows);
    module.scale = static_cast<float>(modules[m].scale);
    module.adapter = modules[m].adapter;
    low_begin += module.rank;
  }
  return a;
}

int num_processors() {
  int device = 0;
  int count = 0;
  PACKTRAIN_CUDA_CHECK(cudaGetDevice(&device));
  PACKTRAIN_CUDA_CHECK(cudaDeviceGetAttribute(&count, cudaDevAttrMultiProcessorCount, device));
  return count;
}

bool gradients_take_factor(const Parameter& b) {
  const at::Tensor& grad = b.grad;
  return b.value.scalar_type() == at::kBFloat16 && b.value.is_contiguous() &&
         (!grad.defined() || (grad.is_contiguous() && is_aligned(grad)));
}

}  // namespace

bool has_lora_kernels() {
  return has_hopper_kernels();
}

bool lora_kernels_take_ranks(const LoraModules& modules) {
  return modules.size() <= std::size_t{std::min(kMaxLoraGemmModules, kMaxLoraGradientsModules)} &&
         ranks_are_vectors(modules) && std::ranges::all_of(modules, [](const LoraModule& module) {
           return module.rank <= kMaxGradientsRank;
         });
}

bool lora_gemm_takes(const LoraGemmOperands& operands, const LoraModules& modules,
                     std::span<const at::Tensor> factors) {
  const auto takes = [](const at::Tensor& x) { return is_matrix_for_tma(x); };
  return takes(operands.left) && takes(operands.weight) && takes(operands.low) &&
         std::ranges::all_of(factors,
                             [&](const at::Tensor& x) { return takes(x) && x.is_contiguous(); }) &&
         ranks_are_vectors(modules) && modules.size() <= kMaxLoraGemmModules &&
         has_few_adapters(operands.row_begins) && operands.left.size(0) > 0 &&
         (!operands.addend.defined() || takes(operands.addend)) &&
         (!operands.bias.defined() || is_aligned(operands.bias));
}

bool lora_gradients_take(const at::Tensor& grad_output, const at::Tensor& s,
                         const LoraModules& modules, std::span<const Parameter* const> b) {
  return is_matrix_for_tma(grad_output) && grad_output.size(0) > 0 && is_matrix_for_tma(s) &&
         lora_kernels_take_ranks(modules) &&
         std::ranges::all_of(b, [](const Parameter* of) { return gradients_take_factor(*of); });
}

at::Tensor lora_gemm_forward_cuda(const LoraGemmOperands& operands, const LoraModules& modules,
                                  std::span<const Parameter* const> b) {
  at::Tensor out =
      at::empty({operands.left.size(0), operands.weight.size(0)}, operands.left.options());
  LoraGemmArguments a = gemm_arguments(out, operands);
  int low_begin = 0;
  for (std::size_t m = 0; m < modules.size(); ++m) {
    const auto rank = static_cast<int>(modules[m].rank);
    add({b[m]->value.const_data_ptr(), rank, low_begin, static_cast<int>(modules[m].begin),
         static_cast<int>(modules[m].num_rows)},
        modules[m].adapter, a);
    low_begin += rank;
  }
  launch_lora_gemm_forward(a, current_stream(out));
  return out;
}

at::Tensor lora_gemm_backward_cuda(const LoraGemmOperands& operands, const Parameter& a,
                                   const LoraModules& modules) {
  at::Tensor out =
      at::empty({operands.left.size(0), operands.weight.size(1)}, operands.left.options());
  LoraGemmArguments arguments = gemm_arguments(out, operands);
  if (operands.row_begins.defined()) {
    add_factors_by_adapter(a.value, modules, arguments);
  } else {
    add({a.value.const_data_ptr(), arguments.low_width, 0, 0, arguments.width}, 0, arguments);
  }
  launch_lora_gemm_backward(arguments, current_stream(out));
  return out;
}

bool lora_fp8_gemm_takes(const Fp8LoraGemmOperands& operands,
                         const std::vector<LoraFactor>& factors) {
  const at::Tensor& codes = operands.left.codes;
  const auto takes = [](const at::Tensor& x) { return !x.defined() || is_matrix_for_tma(x); };
  return codes.is_cuda() && codes.size(0) >= kMinFp8Rows && is_matrix_for_tma(operands.low) &&
         takes(operands.addend) && factors.size() <= kMaxLoraGemmModules &&
         has_few_adapters(operands.row_begins) &&
         (!operands.bias.defined() ||
          (operands.bias.scalar_type() == at::kBFloat16 && is_aligned(operands.bias))) &&
         std::ranges::all_of(factors, [](const LoraFactor& factor) {
           return is_matrix_for_tma(factor.values) && factor.values.is_contiguous();
         });
}

at::Tensor lora_fp8_gemm_cuda(const Fp8LoraGemmOperands& operands,
                              const std::vector<LoraFactor>& factors) {
  const at::Tensor& left = operands.left.codes;
  const at::Tensor& right = operands.right.codes;
  const at::Tensor out = at::empty({left.size(0), right.size(0)}, operands.low.options());
  // Pairs of codes are copied as bfloat16 is.
  LoraGemmArguments a =
      gemm_arguments(out, {left.view(at::kBFloat16), right.view(at::kBFloat16), operands.low,
                           operands.bias, operands.addend, operands.row_begins});
  a.left_scale = operands.left.scale.const_data_ptr<float>();
  a.right_scale = operands.right.scale.const_data_ptr<float>();
  int low_begin = 0;
  for (const LoraFactor& factor : factors) {
    const auto rank = static_cast<int>(factor.values.size(1));
    add({factor.values.const_data_ptr(), rank, low_begin, static_cast<int>(factor.begin),
         static_cast<int>(factor.values.size(0))},
        factor.adapter, a);
    low_begin += rank;
  }
  const bool is_e4m3 = left.scalar_type() == at::kFloat8_e4m3fn;
  launch_lora_fp8_gemm(a, is_e4m3 ? Fp8Format::kE4M3 : Fp8Format::kE5M2, current_stream(out));
  return out;
}

at::Tensor lora_gradients_cuda(const at::Tensor& grad_output, const at::Tensor& s,
                               const LoraModules& modules, std::span<const Parameter* const> b,
                               const at::Tensor& row_begins) {
  at::Tensor grad_low_rank = at::empty(s.sizes(), s.options());
  LoraGradientsArguments a =
      gradients_arguments(grad_low_rank, grad_output, s, modules, b, row_begins);
  plan_lora_gradients(a, num_processors());
  const std::int64_t of_low = low_partials_numel(a);
  const at::Tensor partials =
      at::empty({of_low + b_partials_numel(a)}, s.options().dtype(at::kFloat));
  a.low_partials = partials.data_ptr<float>();
  a.b_partials = a.low_partials + of_low;
  launch_lora_gradients(a, current_stream(s));
  return grad_low_rank;
}

}  // namespace packtrain
