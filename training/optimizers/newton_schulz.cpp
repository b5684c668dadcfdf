#include "training/optimizers/newton_schulz.h"

#include <ATen/ops/div.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/linalg_vector_norm.h>
#include <ATen/ops/mul.h>
#include <ATen/ops/scalar_tensor.h>

#include <algorithm>
#include <string>
#include <utility>

#include "framework/core/error.h"
#include "models/ops/matmul/batched_gemm.h"
#include "models/ops/syrk/syrk.h"

namespace packtrain {
namespace {

// Matrices up to this size are multiplied in batches of up to this size together. Larger ones fill
// the device alone.
constexpr std::int64_t kBatchElements = std::int64_t{1} << 24;

std::int64_t matrices_in_batch(std::int64_t count, std::int64_t numel) {
  return std::clamp<std::int64_t>(kBatchElements / std::max<std::int64_t>(numel, 1), 1, count);
}

// Buffers of a batch [count, rows, columns].
struct Workspace {
  at::Tensor x;
  at::Tensor next;
  at::Tensor gram;        // [count, n, n], n the smaller dimension
  at::Tensor polynomial;  // [count, n, n]
};

Workspace make_workspace(const at::Tensor& x, std::int64_t count) {
  const std::int64_t less = std::min(x.size(1), x.size(2));
  const auto own = [&](std::int64_t rows, std::int64_t columns) {
    return at::empty({count, rows, columns}, x.options());
  };
  return {own(x.size(1), x.size(2)), own(x.size(1), x.size(2)), own(less, less), own(less, less)};
}

// Writes the result of `from` divided by the returned factor to work.x. X is the buffer times a
// number that grows by a in each iteration, so that no pass is needed for a X:
//    A' = b A, X' = X + ((A' + c / b^2 A' A') X) / a
double iterate(const at::Tensor& from, Workspace& work, const GemmTiming& timing) {
  const bool is_wide = from.size(1) <= from.size(2);
  const at::Tensor norm = at::linalg_vector_norm(from, 2, {1, 2}, /*keepdim=*/true, at::kFloat);
  at::div_out(work.x, from, norm.clamp_min_(kNewtonSchulzEpsilon));
  double factor = 1;
  for (int step = 0; step < kNewtonSchulzSteps; ++step) {
    syrk_out(work.gram, work.x, {.transposed = !is_wide, .scale = kNewtonSchulzB * factor * factor},
             timing);
    constexpr double kOfSquare = kNewtonSchulzC / (kNewtonSchulzB * kNewtonSchulzB);
    syrk_out(work.polynomial, work.gram, {.scale = kOfSquare, .addend = work.gram}, timing);
    batched_gemm_out(work.next, is_wide ? work.polynomial : work.x,
                     is_wide ? work.x : work.polynomial,
                     {.addend = work.x, .scale = 1 / kNewtonSchulzA}, timing);
    std::swap(work.x, work.next);
    factor *= kNewtonSchulzA;
  }
  return factor;
}

}  // namespace

void newton_schulz(const at::Tensor& x, double scale, const GemmTiming& timing) {
  const bool is_float = x.scalar_type() == at::kFloat || x.scalar_type() == at::kBFloat16;
  if (x.dim() != 3 || !x.is_contiguous() || !is_float) {
    throw Error(ErrorCategory::kInternal,
                "newton_schulz: got " + std::string(x.toString()) + " with " +
                    std::to_string(x.dim()) +
                    " dimensions, wanted contiguous float32 or bfloat16 [count, rows, columns]");
  }
  if (x.numel() == 0) return;
  const std::int64_t count = matrices_in_batch(x.size(0), x.size(1) * x.size(2));
  Workspace work = make_workspace(x, count);
  for (std::int64_t begin = 0; begin < x.size(0); begin += count) {
    const std::int64_t own = std::min(count, x.size(0) - begin);
    if (own < count) {
      work = {work.x.narrow(0, 0, own), work.next.narrow(0, 0, own), work.gram.narrow(0, 0, own),
              work.polynomial.narrow(0, 0, own)};
    }
    at::Tensor part = x.narrow(0, begin, own);
    const double factor = iterate(part, work, timing);
    at::mul_out(part, work.x, at::scalar_tensor(factor * scale, at::kDouble));
  }
}

std::int64_t newton_schulz_bytes(std::int64_t count, std::int64_t rows, std::int64_t columns,
                                 at::ScalarType type) {
  const std::int64_t less = std::min(rows, columns);
  return 2 * matrices_in_batch(count, rows * columns) * (rows * columns + less * less) *
         static_cast<std::int64_t>(at::elementSize(type));
}

}  // namespace packtrain
