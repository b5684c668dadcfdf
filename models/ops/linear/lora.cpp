#include "models/ops/linear/lora.h"

#include <ATen/ops/empty.h>

#include <algorithm>
#include <cstddef>
#include <span>

#include "framework/core/hash.h"
#include "models/ops/dropout/dropout.h"
#include "models/ops/gradient.h"
#include "models/ops/matmul/matmul.h"

namespace packtrain {
namespace {

// Calls `run` with each module, its columns of s and its number.
template <class Run>
void for_each_module(const LoraModules& modules, const at::Tensor& s, const Run& run) {
  std::int64_t column = 0;
  for (std::size_t m = 0; m < modules.size(); ++m) {
    run(modules[m], s.narrow(1, column, modules[m].rank), m);
    column += modules[m].rank;
  }
}

at::Tensor rows_of(const at::Tensor& y, const LoraModule& module) {
  return y.narrow(1, module.begin, module.num_rows);
}

// The mask of a module depends on its name, not on other modules.
DropoutMask mask_of(const LoraModule& module, const LoraDropout& dropout) {
  return {dropout.row_seeds, digest_bytes(std::as_bytes(std::span(module.name))).low,
          dropout.probability};
}

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

}  // namespace

at::Tensor dropped_forward(const at::Tensor& x, const Parameter& a, const LoraModules& modules,
                           const LoraDropout& dropout, const GemmTiming& timing) {
  const at::Tensor s = at::empty({x.size(0), total_rank(modules)}, x.options());
  for_each_a(modules, a, s, [&](const LoraModule& module, const Parameter& own, const auto& part) {
    gemm_out(part, packtrain::dropout(x, mask_of(module, dropout)), own.value.t(), {}, timing);
  });
  return s;
}

at::Tensor dropped_backward_input(const at::Tensor& grad, const Parameter& a,
                                  const LoraModules& modules, const LoraDropout& dropout,
                                  const GemmTiming& timing) {
  at::Tensor sum;
  for_each_a(modules, a, grad, [&](const LoraModule& module, const Parameter& own, const auto& ds) {
    const at::Tensor of_module =
        packtrain::dropout(gemm(ds, own.value, {}, timing), mask_of(module, dropout));
    sum = sum.defined() ? sum.add_(of_module) : of_module;
  });
  return sum;
}

void dropped_backward_weight(const at::Tensor& grad, const at::Tensor& x, const Parameter& a,
                             const LoraModules& modules, const LoraDropout& dropout,
                             const GemmTiming& timing) {
  for_each_a(modules, a, grad, [&](const LoraModule& module, const Parameter& own, const auto& ds) {
    write_gradient_gemm(own, ds.t(), packtrain::dropout(x, mask_of(module, dropout)), timing);
  });
}

std::int64_t lora_multiply_adds(std::int64_t num_rows, const LoraModules& modules) {
  std::int64_t sum = 0;
  for (const LoraModule& module : modules) sum += num_rows * module.num_rows * module.rank;
  return sum;
}

void scale_modules(const at::Tensor& s, const LoraModules& modules) {
  const double first = modules.front().scale;
  if (std::ranges::all_of(modules, [&](const LoraModule& m) { return m.scale == first; })) {
    if (first != 1) s.mul_(first);
    return;
  }
  for_each_module(modules, s, [](const LoraModule& module, const at::Tensor& columns, std::size_t) {
    columns.mul_(module.scale);
  });
}

void lora_forward(const at::Tensor& y, const at::Tensor& s, const LoraModules& modules,
                  std::span<const Parameter* const> b, const GemmTiming& timing) {
  for_each_module(modules, s, [&](const LoraModule& module, const at::Tensor& columns, auto m) {
    const at::Tensor rows = rows_of(y, module);
    gemm_out(rows, columns, b[m]->value.t(), {.addend = rows}, timing);
  });
}

at::Tensor lora_backward_input(const at::Tensor& grad_output, const LoraModules& modules,
                               std::span<const Parameter* const> b, const GemmTiming& timing) {
  const at::Tensor ds =
      at::empty({grad_output.size(0), total_rank(modules)}, grad_output.options());
  for_each_module(modules, ds, [&](const LoraModule& module, const at::Tensor& columns, auto m) {
    gemm_out(columns, rows_of(grad_output, module), b[m]->value, {}, timing);
  });
  return ds;
}

void lora_backward_weight(const at::Tensor& grad_output, const at::Tensor& s,
                          const LoraModules& modules, std::span<const Parameter* const> b,
                          const GemmTiming& timing) {
  for_each_module(modules, s, [&](const LoraModule& module, const at::Tensor& columns, auto m) {
    write_gradient_gemm(*b[m], rows_of(grad_output, module).t(), columns, timing);
  });
}

}  // namespace packtrain
