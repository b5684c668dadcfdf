#include "models/ops/gate_cutoff/gate_cutoff.h"

#include <ATen/ops/mean.h>
#include <ATen/ops/mul.h>
#include <ATen/ops/scalar_tensor.h>
#include <ATen/ops/special_ndtri.h>
#include <ATen/ops/sub.h>
#include <ATen/ops/sum.h>
#include <ATen/ops/where.h>

namespace packtrain {
namespace {

struct CutGates {
  at::Tensor centred;    // gate - mean, float32 [T, I]
  at::Tensor deviation;  // [T, 1]
  at::Tensor cut;        // gate - (mean + z deviation)
};

CutGates cut_gates(const at::Tensor& x, double quantile) {
  const at::Tensor gate = x.narrow(1, 0, x.size(1) / 2).to(at::kFloat);
  CutGates cut;
  cut.centred = gate.sub(gate.mean(at::IntArrayRef{1}, /*keepdim=*/true));
  cut.deviation =
      at::mul(cut.centred, cut.centred).mean(at::IntArrayRef{1}, /*keepdim=*/true).sqrt_();
  cut.cut = at::sub(cut.centred, cut.deviation, quantile);
  return cut;
}

}  // namespace

double normal_quantile(double share) {
  return at::special_ndtri(at::scalar_tensor(share, at::kDouble)).item<double>();
}

at::Tensor gate_cutoff_forward(const at::Tensor& x, double quantile) {
  if (x.is_cuda()) return gate_cutoff_forward_cuda(x, quantile);
  at::Tensor y = x.clone();
  y.narrow(1, 0, x.size(1) / 2).copy_(cut_gates(x, quantile).cut.clamp_min_(0));
  return y;
}

void gate_cutoff_backward_(const at::Tensor& grad, const at::Tensor& x, double quantile) {
  if (x.is_cuda()) return gate_cutoff_backward_cuda_(grad, x, quantile);
  const CutGates cut = cut_gates(x, quantile);
  const at::Tensor of_gate = grad.narrow(1, 0, x.size(1) / 2);
  const at::Tensor passed = at::mul(of_gate.to(at::kFloat), cut.cut.gt(0));
  // The gradient of the cutoff, divided by the number of gates.
  const at::Tensor of_cutoff = passed.mean(at::IntArrayRef{1}, /*keepdim=*/true).neg_();
  const at::Tensor slope = of_cutoff.mul(quantile).div_(cut.deviation);
  const at::Tensor along = at::where(cut.deviation.gt(0), slope, 0.0);
  of_gate.copy_(at::mul(cut.centred, along).add_(of_cutoff).add_(passed));
}

}  // namespace packtrain
