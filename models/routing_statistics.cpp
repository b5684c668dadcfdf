#include "models/routing_statistics.h"

#include <ATen/ops/arange.h>
#include <ATen/ops/constant_pad_nd.h>
#include <ATen/ops/cumsum.h>
#include <ATen/ops/lt.h>
#include <ATen/ops/mul.h>
#include <ATen/ops/ones.h>
#include <ATen/ops/searchsorted.h>
#include <ATen/ops/sub.h>
#include <ATen/ops/zeros.h>

#include <memory>

#include "models/batch.h"

namespace packtrain {
namespace {

// Rows [begin, end) of each example.
struct Bounds {
  at::Tensor begin;  // int32 [P]
  at::Tensor end;
};

Bounds example_bounds(const DeviceBatch& batch) {
  if (batch.examples.defined()) {
    return {batch.examples.select(0, 0), batch.examples.select(0, 1)};
  }
  const std::int64_t count = batch.cu_seqlens.size(0) - 1;
  return {batch.cu_seqlens.narrow(0, 0, count), batch.cu_seqlens.narrow(0, 1, count)};
}

// The same among the supervised rows.
Bounds supervised_bounds(const DeviceBatch& batch) {
  const Bounds rows = example_bounds(batch);
  return {at::searchsorted(batch.loss_index, rows.begin.contiguous(), /*out_int32=*/true),
          at::searchsorted(batch.loss_index, rows.end.contiguous(), /*out_int32=*/true)};
}

// Sums of each example's rows, [P, E], of values [T, E]. As differences of running sums in float64,
// whose rounding is lost in that to float32: the rows before an example change nothing.
at::Tensor sum_by_example(const at::Tensor& values, const Bounds& bounds) {
  const at::Tensor columns = values.t().to(at::kDouble).contiguous();
  const at::Tensor sums = at::constant_pad_nd(at::cumsum(columns, 1), {1, 0});
  return at::sub(sums.index_select(1, bounds.end), sums.index_select(1, bounds.begin))
      .t()
      .to(at::kFloat);
}

void make_room(RoutingStatistics& statistics, at::IntArrayRef shape, bool with_probabilities,
               const at::TensorOptions& options) {
  if (!statistics.counts.defined() || statistics.counts.sizes() != shape) {
    statistics.counts = at::zeros(shape, options);
  }
  if (with_probabilities &&
      (!statistics.probabilities.defined() || statistics.probabilities.sizes() != shape)) {
    statistics.probabilities = at::zeros(shape, options);
  }
}

}  // namespace

void write_routing(const DeviceBatch& batch, const Routing& routing, const ExpertsConfig& config,
                   std::int64_t layer, std::int64_t num_layers, bool all_rows) {
  const Bounds bounds = all_rows ? example_bounds(batch) : supervised_bounds(batch);
  if (batch.routing == nullptr) batch.routing = std::make_shared<RoutingStatistics>();
  const bool with_probabilities = config.auxiliary_loss != 0;
  make_room(*batch.routing, {num_layers, bounds.begin.size(0), config.num_experts},
            with_probabilities, routing.weights.options());
  at::Tensor chosen =
      at::zeros({routing.experts.size(0), config.num_experts}, routing.weights.options());
  chosen.scatter_(1, routing.experts.to(at::kLong), 1.0);
  batch.routing->counts.select(0, layer).copy_(sum_by_example(chosen, bounds));
  if (with_probabilities) {
    batch.routing->probabilities.select(0, layer).copy_(
        sum_by_example(routing.probabilities, bounds));
  }
}

void finish_routing(const DeviceBatch& batch, const ExpertsConfig& config) {
  if (batch.routing == nullptr || config.auxiliary_loss == 0) return;
  RoutingStatistics& statistics = *batch.routing;
  const Bounds rows = example_bounds(batch);
  const auto num_layers = static_cast<double>(statistics.counts.size(0));
  const at::Tensor length =
      at::sub(rows.end, rows.begin).clamp_min(1).to(at::kFloat).mul_(num_layers).unsqueeze(1);
  const at::Tensor share = statistics.counts.sum(at::IntArrayRef{0}).div_(length);
  const at::Tensor probability = statistics.probabilities.sum(at::IntArrayRef{0}).div_(length);
  const at::Tensor weight =
      sum_by_example(batch.loss_weight.unsqueeze(1), supervised_bounds(batch));
  const auto num_experts = static_cast<double>(config.num_experts);
  const at::Tensor slopes = at::mul(share, weight).mul_(num_experts);  // of P
  statistics.loss = at::mul(slopes, probability).sum();
  statistics.slopes = slopes.div(length).mul_(config.auxiliary_loss);
}

at::Tensor auxiliary_gradient(const DeviceBatch& batch) {
  if (batch.routing == nullptr || !batch.routing->slopes.defined()) return {};
  const Bounds bounds = example_bounds(batch);
  if (bounds.begin.size(0) == 0) return {};  // pads alone
  const at::Tensor row = at::arange(batch.num_rows(), batch.cu_seqlens.options());
  // The last example that does not begin behind the row; a pad lies behind its end.
  const at::Tensor example = at::searchsorted(bounds.begin.contiguous(), row, /*out_int32=*/true,
                                              /*right=*/true)
                                 .sub_(1);
  const at::Tensor is_real = at::lt(row, bounds.end.index_select(0, example));
  return batch.routing->slopes.index_select(0, example).mul_(is_real.unsqueeze(1));
}

}  // namespace packtrain
