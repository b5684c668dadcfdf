// The end of an optimizer step on the device: gradient norm over all ranks, clip factor, decision
// to skip. The host does not wait. Deterministic: the order of sums depends only on the number of
// elements.
//    squared_norm_partials   sums of squares of the parts of a rank's shard; reads it once
//    step_sums               their sum, next to loss and requests: what an all-reduce adds up
//    step_scalars            from the sums over all ranks: norm, clip factor, skip
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <limits>

namespace packtrain {

// `values` is 1-D [n], contiguous, float32 or bfloat16. Returns float32 [parts], 1,056 parts on a
// GPU. Squares and their sums are float32 on a GPU and float64 on the CPU. Bytes: 4 or 2 read an
// element.
at::Tensor squared_norm_partials(const at::Tensor& values);

// Requests that ranks make to each other. A rank's own counts are 0 or 1, so that a sum over ranks
// counts ranks. Sums are exact up to 2^24 ranks, added in any order.
struct RequestCounts {
  float stop = 0;
  float save = 0;
  float out_of_memory = 0;
};

// The first elements of step_sums(), float32; the details follow.
struct StepSums {
  float loss = 0;
  float squared_norm = 0;
  RequestCounts requests;
};
inline constexpr std::int64_t kNumStepSums = sizeof(StepSums) / sizeof(float);

// Returns float32 [kNumStepSums + details]: loss, the sum of `partials` (in float64 on a GPU),
// `requests`, `details`. `loss` is float32 [], `details` float32 [k] or undefined.
at::Tensor step_sums(const at::Tensor& partials, const at::Tensor& loss,
                     const RequestCounts& requests, const at::Tensor& details);

// A step with a loss or norm above these bounds is skipped. A step with NaN is always skipped.
struct RefusalBounds {
  double loss = std::numeric_limits<double>::infinity();
  double norm = std::numeric_limits<double>::infinity();
};

// The first elements of StepScalars::outcome, float32; the details follow.
struct StepReport {
  float loss = 0;
  float norm = 0;
  float skipped = 0;  // 1 where the step is skipped
  RequestCounts requests;
};
inline constexpr std::int64_t kNumReported = sizeof(StepReport) / sizeof(float);

struct StepScalars {
  at::Tensor outcome;      // float32 [kNumReported + details]: a StepReport, details
  at::Tensor clip_factor;  // float32 []: min(1, max_norm / (norm + 1e-6)); 1 where max_norm is 0
  at::Tensor skip;         // uint8 []: 1 where loss or norm is not finite, or above its bound
};

// `sums` are those of step_sums, summed over ranks. The small term in the clip factor is that of
// PyTorch's clip_grad_norm_. It avoids a division by zero.
StepScalars step_scalars(const at::Tensor& sums, double max_norm, const RefusalBounds& bounds = {});

// On CUDA tensors. The functions above call these; no_cuda.cpp has them in a build without CUDA.
// The functions of gradient_norm.h on a GPU. All throw Error(kDevice) in a build without CUDA.
at::Tensor squared_norm_partials_cuda(const at::Tensor& values);
at::Tensor step_sums_cuda(const at::Tensor& partials, const at::Tensor& loss,
                          const RequestCounts& requests, const at::Tensor& details);
StepScalars step_scalars_cuda(const at::Tensor& sums, double max_norm, const RefusalBounds& bounds);

}  // namespace packtrain
