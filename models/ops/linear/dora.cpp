#include "models/ops/linear/dora.h"

#include <ATen/ops/add.h>
#include <ATen/ops/addcmul.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/empty_like.h>
#include <ATen/ops/linalg_vector_norm.h>
#include <ATen/ops/mul.h>
#include <ATen/ops/ones.h>
#include <ATen/ops/ones_like.h>
#include <ATen/ops/sub.h>
#include <ATen/ops/zeros.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <limits>

#include "models/ops/encoded_weight.h"
#include "models/ops/gradient.h"
#include "models/ops/linear/lora.h"
#include "models/ops/matmul/matmul.h"

namespace packtrain {
namespace {

// Elements whose float32 products exist together.
constexpr std::int64_t kMaxChunkElements = std::int64_t{1} << 22;

at::Tensor product_in_float32(const at::Tensor& left, const at::Tensor& right,
                              const GemmTiming& timing) {
  const at::Tensor out = at::empty({left.size(0), right.size(1)}, left.options().dtype(at::kFloat));
  gemm_out(out, left, right, {}, timing);
  return out;
}

// The squares of n of one module. `rows` of W [n, K], a [r, K], b [n, r].
at::Tensor squared_norms(const at::Tensor& rows, const at::Tensor& a, const at::Tensor& b,
                         double scale, const GemmTiming& timing) {
  const at::Tensor of_weight = at::linalg_vector_norm(rows, 2, {1}, false, at::kFloat).square_();
  const at::Tensor wide_b = b.to(at::kFloat);
  // 2 scale W A^T + scale^2 B A A^T
  const at::Tensor terms = product_in_float32(rows, a.t(), timing).mul_(2 * scale);
  gemm_out(terms, wide_b, product_in_float32(a, a.t(), timing),
           {.addend = terms, .scale = scale * scale}, timing);
  return of_weight.add_(terms.mul_(wide_b).sum(1));
}

at::Tensor columns_of(const at::Tensor& y, std::int64_t begin, std::int64_t count) {
  return y.narrow(1, begin, count);
}

// Calls `use` with each module's number, its rows of W, its columns of y and those of s.
template <class Use>
void for_each_module(const LoraModules& modules, const Parameter& weight, const at::Tensor& y,
                     const at::Tensor& s, const Use& use) {
  decode_weight(weight);
  std::int64_t column = 0;
  for (const LoraModule& module : modules) {
    const at::Tensor low = s.defined() ? s.narrow(1, column, module.rank) : at::Tensor();
    use(module, weight.value.narrow(0, module.begin, module.num_rows),
        columns_of(y, module.begin, module.num_rows), low);
    column += module.rank;
  }
}

// Calls `use` with the rows of W that no module has, and their columns of y.
template <class Use>
void for_each_gap(const LoraModules& modules, const Parameter& weight, const at::Tensor& y,
                  const Use& use) {
  std::int64_t begin = 0;
  const auto use_up_to = [&](std::int64_t end) {
    if (end > begin) {
      use(weight.value.narrow(0, begin, end - begin), columns_of(y, begin, end - begin));
    }
  };
  for (const LoraModule& module : modules) {
    use_up_to(module.begin);
    begin = module.begin + module.num_rows;
  }
  use_up_to(weight.value.size(0));
}

at::Tensor sum_of(const at::Tensor& sum, const at::Tensor& part) {
  return sum.defined() ? at::add(sum, part) : part;
}

}  // namespace

at::Tensor dora_norms(const Parameter& weight, const Parameter& a, const LoraModules& modules,
                      std::span<const Parameter* const> b, const GemmTiming& timing) {
  decode_weight(weight);
  const at::Tensor& matrix = weight.value;
  const at::Tensor squares = at::ones({matrix.size(0)}, matrix.options().dtype(at::kFloat));
  std::int64_t first = 0;
  for (std::size_t m = 0; m < modules.size(); ++m) {
    const LoraModule& module = modules[m];
    squares.narrow(0, module.begin, module.num_rows)
        .copy_(squared_norms(matrix.narrow(0, module.begin, module.num_rows),
                             a.value.narrow(0, first, module.rank), b[m]->value, module.scale,
                             timing));
    first += module.rank;
  }
  // 0 / 0 is no factor of a row of zeros.
  return squares.clamp_min_(std::numeric_limits<float>::min()).sqrt_();
}

at::Tensor dora_factors(const at::Tensor& norms, const LoraModules& modules,
                        std::span<const Parameter* const> magnitudes) {
  at::Tensor factors = at::ones_like(norms);
  for (std::size_t m = 0; m < modules.size(); ++m) {
    const LoraModule& module = modules[m];
    factors.narrow(0, module.begin, module.num_rows)
        .copy_(magnitudes[m]->value)
        .div_(norms.narrow(0, module.begin, module.num_rows));
  }
  return factors;
}

at::Tensor dora_scale_forward(const at::Tensor& z, const at::Tensor& factors, const Parameter* bias,
                              const at::Tensor& residual) {
  if (z.is_cuda() && z.size(0) > 0) return dora_scale_forward_cuda(z, factors, bias, residual);
  at::Tensor y = at::empty_like(z);
  at::Tensor addend = residual;
  if (bias != nullptr) {
    const at::Tensor wide = bias->value.to(at::kFloat);
    addend = residual.defined() ? at::add(residual, wide) : wide;
  }
  if (addend.defined()) {
    at::addcmul_out(y, addend, z, factors);
  } else {
    at::mul_out(y, z, factors);
  }
  return y;
}

at::Tensor dora_scale_backward_in_place(const at::Tensor& grad_output, const at::Tensor& z,
                                        const at::Tensor& factors) {
  const std::int64_t num_rows = z.size(0);
  if (z.is_cuda() && num_rows > 0) return dora_scale_backward_cuda(grad_output, z, factors);
  at::Tensor sums = at::zeros({z.size(1)}, z.options().dtype(at::kFloat));
  const std::int64_t most = std::max<std::int64_t>(1, kMaxChunkElements / z.size(1));
  for (std::int64_t begin = 0; begin < num_rows; begin += most) {
    const std::int64_t count = std::min(most, num_rows - begin);
    const at::Tensor wide = z.narrow(0, begin, count).to(at::kFloat);
    sums.add_(at::mul(wide, grad_output.narrow(0, begin, count)).sum(0));
  }
  at::Tensor dz = z;
  at::mul_out(dz, grad_output, factors);
  return sums;
}

void dora_backward_magnitudes(const at::Tensor& sums, const at::Tensor& norms,
                              const LoraModules& modules,
                              std::span<const Parameter* const> magnitudes) {
  for (std::size_t m = 0; m < modules.size(); ++m) {
    const LoraModule& module = modules[m];
    write_gradient(*magnitudes[m], sums.narrow(0, module.begin, module.num_rows)
                                       .div(norms.narrow(0, module.begin, module.num_rows)));
  }
}

at::Tensor dora_dropped_forward(const at::Tensor& x, const Parameter& weight, const at::Tensor& s,
                                const LoraModules& modules, std::span<const Parameter* const> b,
                                const LoraDropout& dropout, const GemmTiming& timing) {
  at::Tensor z = at::empty({x.size(0), weight.value.size(0)}, x.options());
  for_each_module(
      modules, weight, z, {},
      [&](const LoraModule& module, const auto& rows, const auto& columns, const auto& /*low*/) {
        gemm_out(columns, lora_dropped(x, module, dropout), rows.t(), {}, timing);
      });
  for_each_gap(modules, weight, z, [&](const at::Tensor& rows, const at::Tensor& columns) {
    gemm_out(columns, x, rows.t(), {}, timing);
  });
  lora_forward(z, s, modules, b, timing);
  return z;
}

at::Tensor dora_dropped_backward_input(const at::Tensor& grad_z, const Parameter& weight,
                                       const at::Tensor& grad_low_rank, const Parameter& a,
                                       const LoraModules& modules, const LoraDropout& dropout,
                                       const GemmTiming& timing, const at::Tensor& sum) {
  at::Tensor dx = sum;
  std::int64_t first = 0;
  for_each_module(
      modules, weight, grad_z, grad_low_rank,
      [&](const LoraModule& module, const auto& rows, const auto& columns, const auto& low) {
        const at::Tensor part = gemm(columns, rows, {}, timing);
        gemm_out(part, low, a.value.narrow(0, first, module.rank), {.addend = part}, timing);
        dx = sum_of(dx, lora_dropped(part, module, dropout));
        first += module.rank;
      });
  for_each_gap(modules, weight, grad_z, [&](const at::Tensor& rows, const at::Tensor& columns) {
    dx = sum_of(dx, gemm(columns, rows, {}, timing));
  });
  return dx;
}

void dora_add_rest(const at::Tensor& y, const at::Tensor& x, const Parameter& weight,
                   const LoraModules& modules, const LoraDropout& dropout,
                   const GemmTiming& timing) {
  for_each_module(
      modules, weight, y, {},
      [&](const LoraModule& module, const auto& rows, const auto& columns, const auto& /*low*/) {
        gemm_out(columns, at::sub(x, lora_dropped(x, module, dropout)), rows.t(),
                 {.addend = columns}, timing);
      });
}

at::Tensor dora_rest_backward_input(const at::Tensor& grad_output, const Parameter& weight,
                                    const LoraModules& modules, const LoraDropout& dropout,
                                    const GemmTiming& timing, const at::Tensor& sum) {
  at::Tensor dx = sum;
  for_each_module(
      modules, weight, grad_output, {},
      [&](const LoraModule& module, const auto& rows, const auto& columns, const auto& /*low*/) {
        const at::Tensor part = gemm(columns, rows, {}, timing);
        dx = sum_of(dx, at::sub(part, lora_dropped(part, module, dropout)));
      });
  return dx;
}

}  // namespace packtrain
