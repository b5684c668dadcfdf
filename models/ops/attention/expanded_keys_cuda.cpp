#include <ATen/ops/empty.h>

#include "models/ops/attention/expanded_keys.h"
#include "models/ops/attention/expanded_keys_launch.h"
#include "models/ops/cuda/current_stream.h"

namespace packtrain {

at::Tensor expand_rows_cuda(const at::Tensor& heads, const ExpandedKeys& keys) {
  const at::Tensor expanded =
      at::empty({keys.num_keys(), heads.size(1), heads.size(2)}, heads.options());
  ExpandArguments arguments;
  arguments.rows = keys.rows.const_data_ptr<std::int32_t>();
  arguments.num_keys = keys.num_keys();
  arguments.width = heads.size(1) * heads.size(2);
  arguments.row_stride = heads.stride(0);
  arguments.dtype = float_type_of(heads, "expand_rows");
  launch_expand_rows(arguments, heads.const_data_ptr(), expanded.data_ptr(), current_stream(heads));
  return expanded;
}

void sum_copies_cuda(const at::Tensor& copies, const ExpandedKeys& keys, const at::Tensor& out) {
  SumCopiesArguments arguments;
  arguments.first_copy = keys.first_copy.const_data_ptr<std::int32_t>();
  arguments.copies = keys.copies.const_data_ptr<std::int32_t>();
  arguments.num_rows = out.size(0);
  arguments.width = out.size(1) * out.size(2);
  arguments.row_stride = out.stride(0);
  arguments.dtype = float_type_of(out, "sum_copies");
  launch_sum_copies(arguments, copies.const_data_ptr(), out.data_ptr(), current_stream(out));
}

}  // namespace packtrain
