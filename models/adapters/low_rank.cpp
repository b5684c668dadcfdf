#include "models/adapters/low_rank.h"

#include <ATen/Parallel.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/linalg_qr.h>
#include <ATen/ops/linalg_svd.h>
#include <ATen/ops/mm.h>

#include <algorithm>
#include <tuple>

#include "models/decoder/initialize.h"

namespace packtrain {
namespace {

// Columns of the random matrix more than the rank, as Halko et al. advise (section 4.2).
constexpr std::int64_t kOversampling = 10;

struct Decomposition {
  at::Tensor u;   // [outputs, n]
  at::Tensor s;   // [n], descending
  at::Tensor vh;  // [n, inputs]
};

Decomposition decompose(const at::Tensor& matrix) {
  auto [u, s, vh] = at::linalg_svd(matrix, /*full_matrices=*/false);
  return {u, s, vh};
}

at::Tensor orthonormal(const at::Tensor& matrix) {
  return std::get<0>(at::linalg_qr(matrix));
}

// Algorithms 4.4 and 5.1 of Halko et al.
Decomposition decompose_randomized(const at::Tensor& matrix, std::int64_t rank,
                                   const DecompositionOptions& options) {
  const std::int64_t inputs = matrix.size(1);
  const std::int64_t width = std::min({rank + kOversampling, inputs, matrix.size(0)});
  const ParameterSpec random{
      options.name + ".svd", {inputs, width}, {Initialization::Kind::kNormal, 1.0}};
  const at::Tensor omega = at::empty({inputs * width}, at::kFloat);
  initialize(random, options.seed, 0, omega);
  at::Tensor q = orthonormal(at::mm(matrix, omega.view({inputs, width})));
  for (std::int64_t i = 0; i < *options.num_iterations; ++i) {
    q = orthonormal(at::mm(matrix, orthonormal(at::mm(matrix.t(), q))));
  }
  Decomposition found = decompose(at::mm(q.t(), matrix));
  found.u = at::mm(q, found.u);
  return found;
}

// [rows of v, 1]: 1 or -1.
at::Tensor signs_of(const at::Tensor& v) {
  return v.gather(1, v.abs().argmax(1, /*keepdim=*/true)).sign();
}

// One module of a weight, with pointers to its rows.
struct ModuleUpdate {
  std::int64_t rank = 0;
  const float* a = nullptr;  // [rank, inputs]
  const float* b = nullptr;  // [rank], of the row
  float scale = 1;
};

// Subtracts elements [from, to) of the row, one rank after another, so that each element's sum has
// one order.
void subtract_row(const ModuleUpdate& update, std::int64_t inputs, std::int64_t from,
                  std::int64_t to, float* row) {
  for (std::int64_t k = 0; k < update.rank; ++k) {
    const float factor = update.scale * update.b[k];
    const float* a = update.a + k * inputs;
    for (std::int64_t c = from; c < to; ++c) row[c - from] -= factor * a[c];
  }
}

// Elements [begin, begin + numel) of the weight.
struct WeightRange {
  std::int64_t begin = 0;
  std::int64_t numel = 0;
  std::int64_t inputs = 0;
  float* values = nullptr;
};

void subtract_module(const LoraModule& module, const at::Tensor& a, const at::Tensor& b,
                     const WeightRange& range) {
  const std::int64_t end = range.begin + range.numel;
  const std::int64_t first_row = std::max(module.begin, range.begin / range.inputs);
  const std::int64_t last_row =
      std::min(module.begin + module.num_rows, (end + range.inputs - 1) / range.inputs);
  const auto* a_values = a.const_data_ptr<float>();
  const auto* b_values = b.const_data_ptr<float>();
  at::parallel_for(
      first_row, std::max(first_row, last_row), /*grain_size=*/16, [&](auto first, auto last) {
        for (std::int64_t row = first; row < last; ++row) {
          const std::int64_t start = row * range.inputs;
          const std::int64_t from = std::max(range.begin - start, std::int64_t{0});
          const std::int64_t to = std::min(end - start, range.inputs);
          subtract_row({module.rank, a_values, b_values + (row - module.begin) * module.rank,
                        static_cast<float>(module.scale)},
                       range.inputs, from, to, range.values + (start + from - range.begin));
        }
      });
}

}  // namespace

LowRankPart largest_part(const at::Tensor& matrix, std::int64_t rank, double scale,
                         const DecompositionOptions& options) {
  const Decomposition found =
      options.num_iterations ? decompose_randomized(matrix, rank, options) : decompose(matrix);
  const at::Tensor roots = found.s.narrow(0, 0, rank).div(scale).sqrt();
  const at::Tensor v = found.vh.narrow(0, 0, rank);
  const at::Tensor signs = signs_of(v);
  return {v.mul(signs).mul(roots.unsqueeze(1)).contiguous(),
          found.u.narrow(1, 0, rank).mul(signs.t()).mul(roots).contiguous()};
}

void subtract_updates(const LoraModules& modules, const at::Tensor& a,
                      std::span<const at::Tensor> b, std::int64_t begin, const at::Tensor& values) {
  const WeightRange range{begin, values.numel(), a.size(1), values.mutable_data_ptr<float>()};
  std::int64_t first = 0;  // of the module, in a
  for (std::size_t m = 0; m < modules.size(); ++m) {
    const std::int64_t rank = modules[m].rank;
    subtract_module(modules[m], a.narrow(0, first, rank), b[m], range);
    first += rank;
  }
}

}  // namespace packtrain
