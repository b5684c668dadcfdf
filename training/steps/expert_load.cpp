#include "training/steps/expert_load.h"

#include <ATen/ops/zeros.h>

#include <algorithm>
#include <limits>
#include <numeric>

#include "models/layers/expert_layers.h"
#include "models/layers/routing_statistics.h"

namespace packtrain {

std::int64_t num_expert_tokens(const DecoderConfig& decoder) {
  return num_expert_layers(decoder, decoder.num_layers) * decoder.experts.num_experts;
}

std::int64_t num_load_numbers(const DecoderConfig& decoder) {
  const std::int64_t num_counts = num_expert_tokens(decoder);
  if (num_counts == 0) return 0;
  return num_counts + (decoder.experts.auxiliary_loss != 0 ? 1 : 0);
}

at::Tensor sum_expert_load(std::span<const DeviceBatch> batches, const DecoderConfig& decoder) {
  const std::int64_t num_counts = num_expert_tokens(decoder);
  at::Tensor all = at::zeros({num_load_numbers(decoder)}, batches.front().loss_weight.options());
  for (const DeviceBatch& batch : batches) {
    const RoutingStatistics& routing = *batch.state.routing;
    all.narrow(0, 0, num_counts).add_(routing.counts.sum(at::IntArrayRef{1}).view({-1}));
    if (routing.loss.defined()) all.narrow(0, num_counts, 1).add_(routing.loss);
  }
  return all;
}

std::optional<ExpertLoad> expert_load(std::span<const double> sums, const DecoderConfig& decoder) {
  const std::int64_t num_layers = num_expert_layers(decoder, decoder.num_layers);
  if (num_layers == 0) return std::nullopt;
  const auto num_experts = static_cast<std::size_t>(decoder.experts.num_experts);
  ExpertLoad load;
  load.min = std::numeric_limits<double>::max();
  load.tokens.resize(num_experts);
  for (std::size_t layer = 0; layer < static_cast<std::size_t>(num_layers); ++layer) {
    const std::span<const double> tokens = sums.subspan(layer * num_experts, num_experts);
    const double total = std::accumulate(tokens.begin(), tokens.end(), 0.0);
    const double mean = std::max(total / static_cast<double>(num_experts), 1e-9);
    for (std::size_t e = 0; e < num_experts; ++e) {
      load.tokens[e] += tokens[e];
      load.max = std::max(load.max, tokens[e] / mean);
      load.min = std::min(load.min, tokens[e] / mean);
    }
  }
  const std::size_t num_counts = static_cast<std::size_t>(num_layers) * num_experts;
  if (sums.size() > num_counts) load.auxiliary_loss = sums[num_counts];
  return load;
}

}  // namespace packtrain
