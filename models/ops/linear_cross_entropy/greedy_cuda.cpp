#include "models/ops/cuda/current_stream.h"
#include "models/ops/linear_cross_entropy/greedy.h"
#include "models/ops/linear_cross_entropy/greedy_launch.h"

namespace packtrain {

void greedy_labels_cuda(const at::Tensor& logits, const at::Tensor& labels,
                        const at::Tensor& greedy) {
  GreedyArguments arguments;
  arguments.logits = logits.const_data_ptr();
  arguments.labels = labels.const_data_ptr<std::int32_t>();
  arguments.greedy = greedy.data_ptr<bool>();
  arguments.num_rows = logits.size(0);
  arguments.vocab_size = logits.size(1);
  arguments.row_stride = logits.stride(0);
  arguments.dtype = float_type_of(logits, "greedy_labels");
  launch_greedy_labels(arguments, current_stream(logits));
}

}  // namespace packtrain
