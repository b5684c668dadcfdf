#include "models/ops/cuda/not_built.h"
#include "models/ops/experts/token_permutation_cuda.h"

namespace packtrain {

TokenPermutation sort_tokens_by_expert_cuda(const at::Tensor& /*experts*/,
                                            std::int64_t /*num_experts*/) {
  throw_cuda_not_built("order_by_expert");
}

void count_tokens_per_expert_cuda(const at::Tensor& /*experts*/, const at::Tensor& /*row_counts*/,
                                  const at::Tensor& /*counts*/) {
  throw_cuda_not_built("count_by_expert");
}

}  // namespace packtrain
