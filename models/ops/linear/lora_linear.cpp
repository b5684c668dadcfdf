#include "models/ops/linear/lora_linear.h"

#include <ATen/ops/add.h>
#include <ATen/ops/empty.h>

#include <cstddef>
#include <span>
#include <vector>

#include "framework/core/hash.h"
#include "models/ops/dropout/dropout.h"
#include "models/ops/encoded_weight.h"
#include "models/ops/gradient.h"
#include "models/ops/linear/linear.h"
#include "models/ops/linear/lora.h"
#include "models/ops/linear/lora_cuda.h"
#include "models/ops/matmul/matmul.h"

namespace packtrain {
namespace {

// Below this many rows a product has too few tiles for a GPU, and the library's divide its depth.
constexpr std::int64_t kMinKernelRows = 1024;

// Calls `run` with each module, its rows of A and its columns of s.
template <class Run>
void for_each_a(const LoraModules& modules, const Parameter& a, const at::Tensor& s,
                const Run& run) {
  std::int64_t first = 0;
  for (const LoraModule& module : modules) {
    Parameter own{a.value.narrow(0, first, module.rank), {}, a.accumulate};
    if (a.grad.defined()) own.grad = a.grad.narrow(0, first, module.rank);
    run(module, own, s.narrow(1, first, module.rank));
    first += module.rank;
  }
}

std::vector<at::Tensor> factor_values(std::span<const Parameter* const> parameters) {
  std::vector<at::Tensor> values;
  for (const Parameter* parameter : parameters) values.push_back(parameter->value);
  return values;
}

bool updates_in_one_launch(const LoraGemmOperands& operands, const LoraModules& modules,
                           std::span<const at::Tensor> factors) {
  return operands.left.size(0) >= kMinKernelRows && lora_gemm_takes(operands, modules, factors) &&
         has_lora_kernels();
}

}  // namespace

at::Tensor lora_dropped(const at::Tensor& x, const LoraModule& module, const LoraDropout& options) {
  if (options.probability == 0) return x;
  const std::uint64_t key = digest_bytes(std::as_bytes(std::span(module.name))).low;
  return dropout(x, {options.row_seeds, key, options.probability});
}

at::Tensor lora_low_rank(const at::Tensor& x, const Parameter& a, const LoraModules& modules,
                         const LoraDropout& dropout, const GemmTiming& timing) {
  if (dropout.probability == 0) {
    if (const auto scale = common_scale(modules)) {
      return gemm(x, a.value.t(), {.scale = *scale}, timing);
    }
  }
  at::Tensor s = at::empty({x.size(0), total_rank(modules)}, x.options());
  for_each_a(modules, a, s, [&](const LoraModule& module, const Parameter& own, const auto& part) {
    gemm_out(part, lora_dropped(x, module, dropout), own.value.t(), {.scale = module.scale},
             timing);
  });
  return s;
}

void lora_backward_a(const at::Tensor& grad_low_rank, const at::Tensor& x, const Parameter& a,
                     const LoraModules& modules, const LoraDropout& dropout,
                     const GemmTiming& timing) {
  if (dropout.probability == 0) {
    return linear_backward_weight(grad_low_rank, x, a, nullptr, timing);
  }
  for_each_a(modules, a, grad_low_rank,
             [&](const LoraModule& module, const Parameter& own, const auto& grad) {
               write_gradient_gemm(own, grad.t(), lora_dropped(x, module, dropout), timing);
             });
}

at::Tensor lora_backward_x(const at::Tensor& grad_low_rank, const Parameter& a,
                           const LoraModules& modules, const LoraDropout& dropout,
                           const GemmTiming& timing, const at::Tensor& sum) {
  if (dropout.probability == 0) return linear_backward_input(grad_low_rank, a, timing, sum);
  at::Tensor dx = sum;
  for_each_a(modules, a, grad_low_rank,
             [&](const LoraModule& module, const Parameter& own, const auto& grad) {
               const at::Tensor part =
                   lora_dropped(gemm(grad, own.value, {}, timing), module, dropout);
               dx = dx.defined() ? at::add(dx, part) : part;
             });
  return dx;
}

void lora_add_backward_x(const at::Tensor& grad_low_rank, const Parameter& a,
                         const LoraModules& modules, const LoraDropout& dropout,
                         const GemmTiming& timing, const at::Tensor& dx) {
  if (dropout.probability == 0) {
    gemm_out(dx, grad_low_rank, a.value, {.addend = dx}, timing);
    return;
  }
  dx.copy_(lora_backward_x(grad_low_rank, a, modules, dropout, timing, dx));
}

at::Tensor lora_linear_forward(const at::Tensor& x, const Parameter& weight, const Parameter* bias,
                               const at::Tensor& s, const LoraModules& modules,
                               std::span<const Parameter* const> b, const GemmTiming& timing,
                               const at::Tensor& residual, const AdapterRows& rows) {
  const LoraGemmOperands operands{
      x, weight.value, s, bias != nullptr ? bias->value : at::Tensor(), residual, rows.begins};
  if (updates_in_one_launch(operands, modules, factor_values(b))) {
    decode_weight(weight);
    return lora_gemm_forward_cuda(operands, modules, b);
  }
  at::Tensor y = linear_forward(x, weight, bias, timing, residual);
  lora_forward(y, s, modules, b, timing);
  return y;
}

at::Tensor lora_linear_backward_low_rank(const at::Tensor& grad_output, const at::Tensor& s,
                                         const LoraModules& modules,
                                         std::span<const Parameter* const> b,
                                         const GemmTiming& timing, const AdapterRows& rows) {
  if (lora_gradients_take(grad_output, s, modules, b) && has_lora_kernels()) {
    return lora_gradients_cuda(grad_output, s, modules, b, rows.begins);
  }
  at::Tensor ds = lora_backward_input(grad_output, modules, b, timing);
  scale_modules(ds, modules, rows);
  lora_backward_weight(grad_output, s, modules, b, timing, rows);
  return ds;
}

at::Tensor lora_linear_backward_input(const at::Tensor& grad_output, const Parameter& weight,
                                      const at::Tensor& grad_low_rank, const Parameter& a,
                                      const LoraModules& modules, const LoraDropout& dropout,
                                      const GemmTiming& timing, const at::Tensor& sum,
                                      const AdapterRows& rows) {
  const LoraGemmOperands operands{grad_output, weight.value, grad_low_rank, {}, sum, rows.begins};
  const LoraModules parts = rows.are_several() ? modules : LoraModules{};
  if (dropout.probability == 0 && updates_in_one_launch(operands, parts, std::vector{a.value})) {
    decode_weight(weight);
    return lora_gemm_backward_cuda(operands, a, parts);
  }
  return lora_backward_x(grad_low_rank, a, modules, dropout, timing,
                         linear_backward_input(grad_output, weight, timing, sum));
}

}  // namespace packtrain
