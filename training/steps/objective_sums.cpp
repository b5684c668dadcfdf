#include "training/steps/objective_sums.h"

#include <ATen/ops/zeros.h>

#include <cstddef>
#include <iterator>

namespace packtrain {

at::Tensor sum_statistics(std::span<const DeviceBatch> batches, const Objective& objective) {
  const auto options = batches.front().loss_weight.options().dtype(at::kDouble);
  at::Tensor all = at::zeros({2 * std::ssize(objective.statistics())}, options);
  for (const DeviceBatch& batch : batches) {
    if (batch.row_losses.numel() > 0) all.add_(objective.sums(batch, batch.row_losses));
  }
  return all;
}

std::vector<ObjectiveStatistic> mean_statistics(std::span<const double> sums,
                                                const std::vector<std::string>& names) {
  std::vector<ObjectiveStatistic> means;
  for (std::size_t i = 0; i < names.size(); ++i) {
    const double count = sums[2 * i + 1];
    if (count > 0) means.push_back({names[i], sums[2 * i] / count});
  }
  return means;
}

}  // namespace packtrain
