#include "models/ops/linear_cross_entropy/cross_entropy.h"

#include "models/ops/cuda/current_stream.h"
#include "models/ops/linear_cross_entropy/cross_entropy_launch.h"

namespace packtrain {

void cross_entropy_cuda(const at::Tensor& logits, const CrossEntropyTargets& targets,
                        const CrossEntropyOptions& options) {
  CrossEntropyArguments arguments;
  arguments.logits = logits.data_ptr();
  arguments.labels = targets.labels.const_data_ptr<std::int32_t>();
  if (targets.weights.defined()) arguments.weights = targets.weights.const_data_ptr<float>();
  arguments.losses = targets.row_losses.data_ptr<float>();
  arguments.num_rows = logits.size(0);
  arguments.vocab_size = logits.size(1);
  arguments.row_stride = logits.stride(0);
  arguments.soft_cap = static_cast<float>(options.soft_cap);
  arguments.dtype = float_type_of(logits, "cross_entropy");
  launch_cross_entropy(arguments, current_stream(logits));
}

}  // namespace packtrain
