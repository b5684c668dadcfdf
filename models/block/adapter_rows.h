// The rows of each of several adapters that are trained together.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <vector>

namespace packtrain {

// Adapter a has rows [a] up to [a + 1] of a batch. Rows after the last are of none.
struct AdapterRows {
  at::Tensor begins = {};  // int32 [adapters + 1], on the device of the rows
  // The same on the host. Empty in a CUDA graph, which serves batches with other rows.
  std::vector<std::int64_t> on_host = {};

  // False: all rows are of one adapter.
  bool are_several() const { return begins.defined(); }
  // The first row of each and the end of the last. Where on_host is empty this waits for a GPU.
  std::vector<std::int64_t> first_rows() const {
    if (!on_host.empty()) return on_host;
    const at::Tensor copy = begins.cpu();
    const auto* values = copy.const_data_ptr<std::int32_t>();
    return {values, values + copy.numel()};
  }
};

}  // namespace packtrain
