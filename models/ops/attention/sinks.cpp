#include "models/ops/attention/sinks.h"

#include <ATen/ops/exp.h>
#include <ATen/ops/logaddexp.h>
#include <ATen/ops/mul.h>
#include <ATen/ops/sub.h>
#include <ATen/ops/zeros.h>

#include <algorithm>

namespace packtrain {

void add_sinks_(const at::Tensor& y, const at::Tensor& logsumexp, const at::Tensor& sinks) {
  const at::Tensor sums = at::logaddexp(logsumexp, sinks.to(at::kFloat));
  y.mul_(at::sub(logsumexp, sums).exp_().unsqueeze(2));
  logsumexp.copy_(sums);
}

at::Tensor sinks_gradient(const at::Tensor& grad_output, const at::Tensor& y,
                          const at::Tensor& logsumexp, const at::Tensor& sinks) {
  const at::Tensor wide = sinks.to(at::kFloat);
  at::Tensor grad = at::zeros(sinks.sizes(), wide.options());
  constexpr std::int64_t kRows = 4096;  // of one product, which is float32 and has all heads
  for (std::int64_t begin = 0; begin < y.size(0); begin += kRows) {
    const std::int64_t count = std::min(kRows, y.size(0) - begin);
    const at::Tensor products =
        at::mul(grad_output.narrow(0, begin, count).to(at::kFloat), y.narrow(0, begin, count))
            .sum(at::IntArrayRef{-1});
    const at::Tensor weights = at::sub(wide, logsumexp.narrow(0, begin, count)).exp_();
    grad.sub_(at::mul(products, weights).sum(at::IntArrayRef{0}));
  }
  return grad;
}

}  // namespace packtrain
