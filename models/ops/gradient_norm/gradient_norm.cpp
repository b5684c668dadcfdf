#include "models/ops/gradient_norm/gradient_norm.h"

#include <ATen/ops/cat.h>
#include <ATen/ops/clamp.h>
#include <ATen/ops/full.h>
#include <ATen/ops/isfinite.h>
#include <ATen/ops/linalg_vector_norm.h>
#include <ATen/ops/ones.h>
#include <ATen/ops/reciprocal.h>
#include <ATen/ops/stack.h>

#include <vector>

namespace packtrain {
namespace {

at::Tensor with_details(const at::Tensor& values, const at::Tensor& details) {
  return details.defined() ? at::cat({values, details}) : values;
}

}  // namespace

at::Tensor squared_norm_partials(const at::Tensor& values) {
  if (values.is_cuda()) return squared_norm_partials_cuda(values);
  const at::Tensor norm = at::linalg_vector_norm(values, 2, at::OptionalIntArrayRef(),
                                                 /*keepdim=*/false, at::kDouble);
  return norm.mul(norm).view({1}).to(at::kFloat);
}

at::Tensor step_sums(const at::Tensor& partials, const at::Tensor& loss,
                     const RequestCounts& requests, const at::Tensor& details) {
  if (partials.is_cuda()) return step_sums_cuda(partials, loss, requests, details);
  std::vector<at::Tensor> sums = {loss.to(at::kFloat), partials.sum()};
  for (const float request : {requests.stop, requests.save, requests.out_of_memory})
    sums.push_back(at::full({}, request, partials.options()));
  return with_details(at::stack(sums), details);
}

StepScalars step_scalars(const at::Tensor& sums, double max_norm, const RefusalBounds& bounds) {
  if (sums.is_cuda()) return step_scalars_cuda(sums, max_norm, bounds);
  const at::Tensor loss = sums.select(0, 0);
  const at::Tensor norm = sums.select(0, 1).sqrt();
  const at::Tensor skip = at::isfinite(norm.add(loss))
                              .logical_not_()
                              .logical_or_(loss.gt(bounds.loss))
                              .logical_or_(norm.gt(bounds.norm));
  at::Tensor clip_factor = at::ones({}, norm.options());
  if (max_norm > 0) {
    clip_factor = at::reciprocal(norm.add(1e-6)).mul(max_norm).clamp_max(1.0);
  }
  const at::Tensor values =
      at::cat({at::stack({loss, norm, skip.to(at::kFloat)}), sums.slice(0, 2, kNumStepSums)});
  return {with_details(values, sums.slice(0, kNumStepSums)), clip_factor, skip.to(at::kByte)};
}

}  // namespace packtrain
