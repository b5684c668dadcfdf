#include "models/ops/linear/lora.h"

#include <ATen/ops/empty.h>

#include <algorithm>
#include <cstddef>
#include <vector>

#include "models/ops/gradient.h"
#include "models/ops/linear/own_rows.h"
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

}  // namespace

std::int64_t lora_multiply_adds(std::int64_t num_rows, const LoraModules& modules) {
  std::int64_t sum = 0;
  for (const LoraModule& module : modules) sum += num_rows * module.num_rows * module.rank;
  return sum;
}

std::optional<double> common_scale(const LoraModules& modules) {
  const double first = modules.front().scale;
  const bool is_common =
      std::ranges::all_of(modules, [&](const LoraModule& m) { return m.scale == first; });
  return is_common ? std::optional(first) : std::nullopt;
}

void scale_modules(const at::Tensor& s, const LoraModules& modules, const AdapterRows& rows) {
  if (rows.are_several()) return scale_own_rows(s, modules, rows);
  if (const auto scale = common_scale(modules)) {
    if (*scale != 1) s.mul_(*scale);
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
                          const GemmTiming& timing, const AdapterRows& rows) {
  std::vector<std::int64_t> begins = {0, s.size(0)};
  if (rows.are_several()) begins = rows.first_rows();
  for_each_module(modules, s, [&](const LoraModule& module, const at::Tensor& columns, auto m) {
    const std::int64_t begin = begins.at(module.adapter);
    const std::int64_t numel = begins.at(module.adapter + 1) - begin;
    if (numel == 0) return write_zero_gradient(*b[m]);
    write_gradient_gemm(*b[m], rows_of(grad_output, module).narrow(0, begin, numel).t(),
                        columns.narrow(0, begin, numel), timing);
  });
}

}  // namespace packtrain
