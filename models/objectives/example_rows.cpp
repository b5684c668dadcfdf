#include "models/objectives/example_rows.h"

#include <ATen/ops/repeat_interleave.h>
#include <ATen/ops/segment_reduce.h>

namespace packtrain {

ExampleRows::ExampleRows(const at::Tensor& num_rows, std::int64_t total)
    : num_rows_(num_rows), counts_(num_rows.to(at::kDouble)), total_(total) {}

// `unsafe` leaves out a check of the lengths that waits for the device.
at::Tensor ExampleRows::sum(const at::Tensor& of_rows) const {
  return at::segment_reduce(of_rows, "sum", num_rows_, /*indices=*/{}, /*offsets=*/{}, /*axis=*/0,
                            /*unsafe=*/true);
}

// With the size of its output this does not wait for the device.
at::Tensor ExampleRows::spread(const at::Tensor& of_examples) const {
  return at::repeat_interleave(of_examples, num_rows_, /*dim=*/0, total_);
}

}  // namespace packtrain
