#include "training/steps/step_details.h"

#include <ATen/ops/cat.h>

#include <cstddef>
#include <iterator>
#include <vector>

#include "training/steps/expert_load.h"
#include "training/steps/objective_sums.h"
#include "training/steps/row_losses.h"

namespace packtrain {

std::int64_t StepDetails::size() const {
  return num_loss_sums() + 2 * std::ssize(statistics_) + num_load_numbers(decoder_);
}

at::Tensor StepDetails::sum(std::span<const DeviceBatch> batches) const {
  std::vector<at::Tensor> parts;
  if (num_adapters_ > 0) parts.push_back(sum_by_adapter(batches, num_adapters_));
  if (by_source()) parts.push_back(sum_by_source(batches, num_sources()));
  if (!statistics_.empty()) parts.push_back(sum_statistics(batches, *objective_).to(at::kFloat));
  if (num_load_numbers(decoder_) > 0) parts.push_back(sum_expert_load(batches, decoder_));
  return at::cat(parts);
}

at::Tensor StepDetails::expert_tokens(const at::Tensor& sums) const {
  const std::int64_t begin = num_loss_sums() + 2 * std::ssize(statistics_);
  return sums.narrow(0, begin, num_expert_tokens(decoder_));
}

void StepDetails::add_to(StepRecord& record, std::span<const double> sums) const {
  if (by_source()) record.loss_by_source = mean_by_source(sums, store_.info().sources);
  const std::span rest = sums.subspan(static_cast<std::size_t>(num_loss_sums()));
  record.objective = mean_statistics(rest, statistics_);
  record.experts = expert_load(rest.subspan(2 * statistics_.size()), decoder_);
}

}  // namespace packtrain
