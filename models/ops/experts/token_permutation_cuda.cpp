#include "models/ops/experts/token_permutation.h"

#include <ATen/ops/empty.h>
#include <ATen/ops/empty_like.h>
#include <ATen/ops/zeros.h>

#include "models/ops/cuda/current_stream.h"
#include "models/ops/experts/token_permutation_launch.h"

namespace packtrain {

TokenPermutation sort_tokens_by_expert_cuda(const at::Tensor& experts, std::int64_t num_experts) {
  const at::Tensor in = experts.contiguous();
  if (in.numel() == 0) return {at::empty_like(in), at::zeros({num_experts}, in.options())};
  const std::int64_t num_runs = (in.numel() + kAssignmentsPerWarp - 1) / kAssignmentsPerWarp;
  const at::Tensor starts = at::empty({num_experts, num_runs}, in.options());
  TokenPermutation order{at::empty_like(in), at::empty({num_experts}, in.options())};
  TokenPermutationArguments arguments;
  arguments.experts = in.const_data_ptr<std::int32_t>();
  arguments.starts = starts.data_ptr<std::int32_t>();
  arguments.permuted_rows = order.permuted_rows.data_ptr<std::int32_t>();
  arguments.ends = order.ends.data_ptr<std::int32_t>();
  arguments.num_assignments = in.numel();
  arguments.num_experts = num_experts;
  launch_token_permutation(arguments, current_stream(in));
  return order;
}

void count_tokens_per_expert_cuda(const at::Tensor& experts, const at::Tensor& row_counts,
                                  const at::Tensor& counts) {
  const at::Tensor in = experts.contiguous();
  const at::Tensor of_rows = row_counts.defined() ? row_counts.contiguous() : row_counts;
  ExpertCountsArguments arguments;
  arguments.experts = in.const_data_ptr<std::int32_t>();
  if (of_rows.defined()) arguments.row_counts = of_rows.const_data_ptr<float>();
  arguments.counts = counts.data_ptr<float>();
  arguments.num_rows = in.size(0);
  arguments.experts_per_row = in.size(1);
  arguments.num_experts = counts.numel();
  launch_expert_counts(arguments, current_stream(in));
}

}  // namespace packtrain
