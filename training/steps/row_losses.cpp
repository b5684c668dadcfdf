#include "training/steps/row_losses.h"

#include <ATen/ops/arange.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/eq.h>
#include <ATen/ops/mul.h>
#include <ATen/ops/ones_like.h>
#include <ATen/ops/searchsorted.h>
#include <ATen/ops/where.h>
#include <ATen/ops/zeros.h>

namespace packtrain {

at::Tensor request_row_losses(std::span<DeviceBatch> batches) {
  std::int64_t num_rows = 0;
  for (const DeviceBatch& batch : batches) num_rows += batch.loss_weight.numel();
  const at::Tensor all = at::empty({num_rows}, batches.front().loss_weight.options());
  std::int64_t begin = 0;
  for (DeviceBatch& batch : batches) {
    batch.row_losses = all.narrow(0, begin, batch.loss_weight.numel());
    begin += batch.loss_weight.numel();
  }
  return all;
}

at::Tensor sum_by_source(std::span<const DeviceBatch> batches, std::int64_t num_sources) {
  const at::Tensor all = at::zeros({2 * num_sources}, batches.front().loss_weight.options());
  at::Tensor sums = all.narrow(0, 0, num_sources);
  at::Tensor counts = all.narrow(0, num_sources, num_sources);
  for (const DeviceBatch& batch : batches) {
    if (batch.row_losses.numel() == 0) continue;
    const bool is_weighted = batch.token_weight.defined();
    sums.index_add_(0, batch.loss_source,
                    is_weighted ? at::mul(batch.row_losses, batch.token_weight) : batch.row_losses);
    counts.index_add_(0, batch.loss_source,
                      is_weighted ? batch.token_weight : at::ones_like(batch.row_losses));
  }
  return all;
}

at::Tensor sum_by_adapter(std::span<const DeviceBatch> batches, std::int64_t num_adapters) {
  at::Tensor sums = at::zeros({num_adapters}, batches.front().loss_weight.options());
  for (const DeviceBatch& batch : batches) {
    const at::Tensor losses = at::mul(batch.row_losses, batch.loss_weight);
    const at::Tensor after = at::searchsorted(batch.adapter_rows.begins, batch.loss_index,
                                              /*out_int32=*/true, /*right=*/true);
    const at::Tensor numbers = at::arange(1, num_adapters + 1, after.options()).unsqueeze(1);
    // where(): a loss that is not finite must not reach other adapters.
    sums.add_(at::where(at::eq(after, numbers), losses, 0.0F).sum(1));
  }
  return sums;
}

std::vector<SourceLoss> mean_by_source(std::span<const double> sums,
                                       const std::vector<std::string>& sources) {
  std::vector<SourceLoss> losses;
  for (std::size_t s = 0; s < sources.size(); ++s) {
    const double count = sums[sources.size() + s];
    if (count > 0) losses.push_back({sources[s], sums[s] / count});
  }
  return losses;
}

}  // namespace packtrain
