#include "training/steps/step_details.h"

#include <ATen/ops/cat.h>

#include <cstddef>
#include <vector>

#include "training/steps/expert_load.h"
#include "training/steps/row_losses.h"

namespace packtrain {

std::int64_t StepDetails::size() const {
  return num_loss_sums() + num_load_numbers(decoder_);
}

at::Tensor StepDetails::sum(std::span<const DeviceBatch> batches) const {
  std::vector<at::Tensor> parts;
  if (num_adapters_ > 0) parts.push_back(sum_by_adapter(batches, num_adapters_));
  if (by_source()) parts.push_back(sum_by_source(batches, num_sources()));
  if (num_load_numbers(decoder_) > 0) parts.push_back(sum_expert_load(batches, decoder_));
  return at::cat(parts);
}

void StepDetails::add_to(StepRecord& record, std::span<const double> sums) const {
  if (by_source()) record.loss_by_source = mean_by_source(sums, store_.info().sources);
  const auto num_losses = static_cast<std::size_t>(num_loss_sums());
  record.experts = expert_load(sums.subspan(num_losses), decoder_);
}

}  // namespace packtrain
