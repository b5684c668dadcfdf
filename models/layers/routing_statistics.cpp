#include "models/layers/routing_statistics.h"

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

#include "models/block/batch.h"
#include "models/ops/experts/token_permutation.h"

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

// The same bounds counted in supervised rows.
Bounds supervised_bounds(const DeviceBatch& batch) {
  const Bounds rows = example_bounds(batch);
  return {at::searchsorted(batch.loss_index, rows.begin.contiguous(), /*out_int32=*/true),
          at::searchsorted(batch.loss_index, rows.end.contiguous(), /*out_int32=*/true)};
}

// Sums of each example's rows, [P, E], of values [T, E], as differences of prefix sums in float64.
// Their error is below float32 rounding, so earlier rows do not change an example's sum.
at::Tensor sum_by_example(const at::Tensor& values, const Bounds& bounds) {
  const at::Tensor columns = values.t().to(at::kDouble).contiguous();
  const at::Tensor sums = at::constant_pad_nd(at::cumsum(columns, 1), {1, 0});
  return at::sub(sums.index_select(1, bounds.end), sums.index_select(1, bounds.begin))
      .t()
      .to(at::kFloat);
}

// Example of each row, int32 [T], and whether it has one: a pad is after the end of the last
// example that begins before it. There is at least one example.
struct RowExamples {
  at::Tensor example;
  at::Tensor is_real;
};

RowExamples row_examples(const DeviceBatch& batch, const Bounds& bounds) {
  const at::Tensor row = at::arange(batch.num_rows(), batch.cu_seqlens.options());
  const at::Tensor example = at::searchsorted(bounds.begin.contiguous(), row, /*out_int32=*/true,
                                              /*right=*/true)
                                 .sub_(1);
  return {example, at::lt(row, bounds.end.index_select(0, example))};
}

void allocate_zeros(at::Tensor& sums, at::IntArrayRef shape, const at::TensorOptions& options) {
  if (!sums.defined() || sums.sizes() != shape) sums = at::zeros(shape, options);
}

// [rows, E]: 1 at each expert that a row chose, else 0.
at::Tensor at_chosen(const Routing& routing, std::int64_t num_experts) {
  at::Tensor chosen = at::zeros({routing.experts.size(0), num_experts}, routing.weights.options());
  return chosen.scatter_(1, routing.experts.to(at::kLong), 1.0);
}

// RoutingStatistics::real_rows
at::Tensor real_rows(const DeviceBatch& batch) {
  if (!batch.examples.defined()) return {};
  const Bounds bounds = example_bounds(batch);
  const at::TensorOptions options = batch.loss_weight.options();
  if (bounds.begin.size(0) == 0) return at::zeros({batch.num_rows(), 1}, options);
  return row_examples(batch, bounds).is_real.to(at::kFloat).unsqueeze(1);
}

// Adds the choices of all rows except pads to counts [E].
void count_choices(DeviceBatch& batch, const Routing& routing, bool all_rows,
                   const at::Tensor& counts) {
  RoutingStatistics& statistics = *batch.state.routing;
  const bool has_pads = all_rows && batch.examples.defined();
  if (has_pads && !statistics.real_rows.defined()) statistics.real_rows = real_rows(batch);
  count_tokens_per_expert(routing.experts, has_pads ? statistics.real_rows : at::Tensor(), counts);
}

}  // namespace

void write_routing(DeviceBatch& batch, const Routing& routing, const ExpertsConfig& config,
                   std::int64_t layer, std::int64_t num_layers, bool all_rows) {
  if (batch.state.routing == nullptr) batch.state.routing = std::make_shared<RoutingStatistics>();
  RoutingStatistics& statistics = *batch.state.routing;
  const at::TensorOptions options = routing.weights.options();
  if (config.auxiliary_loss == 0) {
    allocate_zeros(statistics.counts, {num_layers, 1, config.num_experts}, options);
    const at::Tensor counts = statistics.counts.select(0, layer).select(0, 0);
    count_choices(batch, routing, all_rows, counts.zero_());  // a recomputation: same values
    return;
  }
  const Bounds bounds = all_rows ? example_bounds(batch) : supervised_bounds(batch);
  const std::int64_t num_examples = bounds.begin.size(0);
  allocate_zeros(statistics.counts, {num_layers, num_examples, config.num_experts}, options);
  allocate_zeros(statistics.probabilities, {num_layers, num_examples, config.num_experts}, options);
  statistics.counts.select(0, layer).copy_(
      sum_by_example(at_chosen(routing, config.num_experts), bounds));
  statistics.probabilities.select(0, layer).copy_(sum_by_example(routing.probabilities, bounds));
}

void finish_routing(DeviceBatch& batch, const ExpertsConfig& config) {
  if (batch.state.routing == nullptr || config.auxiliary_loss == 0) return;
  RoutingStatistics& statistics = *batch.state.routing;
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
  if (batch.state.routing == nullptr || !batch.state.routing->slopes.defined()) return {};
  const Bounds bounds = example_bounds(batch);
  if (bounds.begin.size(0) == 0) return {};  // only pads
  const RowExamples rows = row_examples(batch, bounds);
  return batch.state.routing->slopes.index_select(0, rows.example).mul_(rows.is_real.unsqueeze(1));
}

}  // namespace packtrain
