#include "training/evaluation/evaluated_adapter.h"

#include <ATen/ops/tensor.h>

#include <algorithm>
#include <cstdint>
#include <utility>
#include <vector>

namespace packtrain {
namespace {

// `num_rows` rows, all of the adapter.
AdapterRows rows_of(const EvaluatedAdapter& adapter, std::int64_t num_rows, at::Device device) {
  std::vector<std::int64_t> begins(adapter.num_adapters + 1, num_rows);
  std::fill_n(begins.begin(), adapter.number + 1, 0);
  const at::Tensor on_host = at::tensor(begins, at::kInt);
  return {on_host.to(device), std::move(begins)};
}

}  // namespace

void set_adapter(const EvaluatedAdapter& adapter, DeviceBatch& batch) {
  if (adapter.num_adapters == 1) return;
  const at::Device device = batch.input_ids.device();
  batch.adapter_rows = rows_of(adapter, batch.num_rows(), device);
  batch.adapter_loss_rows = rows_of(adapter, batch.loss_index.size(0), device);
}

}  // namespace packtrain
