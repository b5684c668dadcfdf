#include "models/ops/gradient_norm/gradient_norm.h"

#include <ATen/ops/empty.h>
#include <c10/cuda/CUDAGuard.h>

#include <cstring>

#include "models/ops/cuda/current_stream.h"
#include "models/ops/gradient_norm/gradient_norm_launch.h"

namespace packtrain {
namespace {

// Blocks of the first pass: eight for each of 132 multiprocessors. Fixed, so that every GPU adds in
// the same order.
constexpr int kNumPartials = 1056;
static_assert(kNumStepSums == 2 + kNumRequests && kNumReported == 3 + kNumRequests);

}  // namespace

at::Tensor squared_norm_partials_cuda(const at::Tensor& values) {
  const c10::cuda::CUDAGuard guard(values.device());
  at::Tensor partials = at::empty({kNumPartials}, values.options().dtype(at::kFloat));
  SquaredNormArguments arguments;
  arguments.values = values.const_data_ptr();
  arguments.dtype = float_type_of(values, "squared_norm_partials");
  arguments.numel = values.numel();
  arguments.partials = partials.data_ptr<float>();
  arguments.num_partials = kNumPartials;
  launch_squared_norm(arguments, current_stream(values));
  return partials;
}

at::Tensor step_sums_cuda(const at::Tensor& partials, const at::Tensor& loss,
                          const RequestCounts& requests, const at::Tensor& details) {
  const c10::cuda::CUDAGuard guard(partials.device());
  const std::int64_t num_details = details.defined() ? details.numel() : 0;
  at::Tensor sums = at::empty({kNumStepSums + num_details}, partials.options());
  StepSumsArguments arguments;
  arguments.partials = partials.const_data_ptr<float>();
  arguments.num_partials = static_cast<int>(partials.numel());
  arguments.loss = loss.const_data_ptr<float>();
  std::memcpy(arguments.requests, &requests, sizeof requests);
  arguments.details = details.defined() ? details.const_data_ptr<float>() : nullptr;
  arguments.num_details = static_cast<int>(num_details);
  arguments.sums = sums.data_ptr<float>();
  launch_step_sums(arguments, current_stream(partials));
  return sums;
}

StepScalars step_scalars_cuda(const at::Tensor& sums, double max_norm,
                              const RefusalBounds& bounds) {
  const c10::cuda::CUDAGuard guard(sums.device());
  const std::int64_t num_details = sums.numel() - kNumStepSums;
  StepScalars scalars{at::empty({kNumReported + num_details}, sums.options()),
                      at::empty({}, sums.options()),
                      at::empty({}, sums.options().dtype(at::kByte))};
  StepScalarsArguments arguments;
  arguments.sums = sums.const_data_ptr<float>();
  arguments.num_details = static_cast<int>(num_details);
  arguments.max_norm = static_cast<float>(max_norm);
  arguments.loss_bound = static_cast<float>(bounds.loss);
  arguments.norm_bound = static_cast<float>(bounds.norm);
  arguments.outcome = scalars.outcome.data_ptr<float>();
  arguments.clip_factor = scalars.clip_factor.data_ptr<float>();
  arguments.skip = scalars.skip.data_ptr<std::uint8_t>();
  launch_step_scalars(arguments, current_stream(sums));
  return scalars;
}

}  // namespace packtrain
