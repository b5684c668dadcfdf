#include "models/ops/linear_cross_entropy/cross_entropy_cuda.h"

#include <ATen/ops/empty_like.h>

#include "models/ops/cuda/current_stream.h"
#include "models/ops/linear_cross_entropy/cross_entropy_launch.h"

namespace packtrain {

at::Tensor cross_entropy_cuda(const at::Tensor& logits, const at::Tensor& labels,
                              const at::Tensor& weights, bool gradients) {
  at::Tensor losses = at::empty_like(weights);
  CrossEntropyArguments arguments;
  arguments.logits = logits.data_ptr();
  arguments.labels = labels.const_data_ptr<std::int32_t>();
  arguments.weights = weights.const_data_ptr<float>();
  arguments.losses = losses.data_ptr<float>();
  arguments.num_rows = logits.size(0);
  arguments.vocab_size = logits.size(1);
  arguments.gradients = gradients;
  arguments.bfloat16 = is_bfloat16(logits, "cross_entropy");
  launch_cross_entropy(arguments, current_stream(logits));
  return losses;
}

}  // namespace packtrain
