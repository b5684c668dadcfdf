#include "models/objectives/group_objective.h"

#include <ATen/TensorOperators.h>
#include <ATen/ops/empty_like.h>
#include <ATen/ops/exp.h>
#include <ATen/ops/full.h>
#include <ATen/ops/gt.h>
#include <ATen/ops/stack.h>
#include <ATen/ops/where.h>
#include <ATen/ops/zeros.h>

#include <utility>

#include "framework/core/error.h"

namespace packtrain {
namespace {

at::TensorOptions wide(const at::Tensor& like) {
  return like.options().dtype(at::kDouble);
}

void check_has(bool has, const char* what) {
  if (has) return;
  throw Error(ErrorCategory::kInternal, std::string("objective: the micro-batch has no ") + what +
                                            ", which the loss of its groups reads");
}

}  // namespace

Divergence divergence_of(const GroupInput& input) {
  const at::Tensor log_ratio = input.reference - input.log_probs;
  const at::Tensor ratio = at::exp(log_ratio);
  return {ratio - log_ratio - 1, 1 - ratio};
}

StatisticSum sum_of(const at::Tensor& values) {
  return {values.sum(at::kDouble), at::full({}, static_cast<double>(values.numel()), wide(values))};
}

StatisticSum sum_of(const at::Tensor& values, const at::Tensor& mask) {
  return {at::where(mask, values, 0.0).sum(at::kDouble), mask.sum(at::kDouble)};
}

GroupInput GroupObjective::input_of(const DeviceBatch& batch, const at::Tensor& row_losses) const {
  const GroupRows& groups = batch.groups;
  check_has(groups.is_defined(), "groups");
  GroupInput input{batch,
                   groups,
                   ExampleRows(groups.num_rows, row_losses.size(0)),
                   row_losses.to(at::kDouble).neg(),
                   {}};
  if (options_.needs_reference) {
    check_has(groups.reference.defined(), "log-probabilities of the reference");
    input.reference = groups.reference.to(at::kDouble);
  }
  return input;
}

ObjectiveValue GroupObjective::evaluate(const DeviceBatch& batch,
                                        const at::Tensor& row_losses) const {
  if (row_losses.size(0) == 0) {
    return {at::zeros({}, row_losses.options()), at::empty_like(row_losses)};
  }
  const GroupInput input = input_of(batch, row_losses);
  auto [loss, gradient] = loss_of(input);
  gradient = gradient.neg();
  if (options_.next_token_weight != 0) {
    const at::Tensor weights = batch.loss_weight.to(at::kDouble) * options_.next_token_weight;
    loss = loss - (weights * input.log_probs).sum();
    gradient = gradient + weights;
  }
  return {loss.to(at::kFloat), gradient.to(at::kFloat)};
}

std::vector<std::string> GroupObjective::statistics() const {
  std::vector<std::string> names = group_statistics();
  if (options_.needs_reference) names.emplace_back("reference_divergence");
  names.emplace_back("next_token_loss");
  return names;
}

at::Tensor GroupObjective::sums(const DeviceBatch& batch, const at::Tensor& row_losses) const {
  if (row_losses.size(0) == 0) {
    return at::zeros({2 * std::ssize(statistics())}, wide(row_losses));
  }
  const GroupInput input = input_of(batch, row_losses);
  std::vector<StatisticSum> all = group_sums(input);
  if (options_.needs_reference) all.push_back(sum_of(divergence_of(input).values));
  all.push_back(sum_of(row_losses, at::gt(batch.loss_weight, 0)));
  std::vector<at::Tensor> flat;
  for (StatisticSum& one : all) {
    flat.push_back(std::move(one.sum));
    flat.push_back(std::move(one.count));
  }
  return at::stack(flat);
}

}  // namespace packtrain
