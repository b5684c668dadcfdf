#include "models/ops/cuda/current_stream.h"
#include "models/ops/linear_cross_entropy/sample_labels.h"
#include "models/ops/linear_cross_entropy/sample_labels_launch.h"

namespace packtrain {

void sample_labels_cuda(const at::Tensor& logits, const at::Tensor& row_seeds,
                        const CrossEntropyOptions& options, const at::Tensor& labels) {
  SampleLabelsArguments arguments;
  arguments.logits = logits.const_data_ptr();
  arguments.row_seeds = row_seeds.const_data_ptr<std::int64_t>();
  arguments.labels = labels.mutable_data_ptr<std::int32_t>();
  arguments.num_rows = logits.size(0);
  arguments.vocab_size = logits.size(1);
  arguments.row_stride = logits.stride(0);
  arguments.soft_cap = static_cast<float>(options.soft_cap);
  arguments.dtype = float_type_of(logits, "sample_labels");
  launch_sample_labels(arguments, current_stream(logits));
}

}  // namespace packtrain
