#include "tests/models/objectives/group_batches.h"

#include <ATen/TensorOperators.h>
#include <ATen/ops/tensor.h>
#include <ATen/ops/zeros.h>
#include <torch/csrc/autograd/autograd.h>

#include <algorithm>
#include <numeric>

namespace packtrain {
namespace {

bool begins_group(GroupRole role) {
  return role != GroupRole::kRejected;
}

bool learns_next_token(GroupRole role) {
  return role != GroupRole::kRejected && role != GroupRole::kUndesirable;
}

at::Tensor floats(const OperatorCase& on, const std::vector<float>& values) {
  return at::tensor(values, at::TensorOptions(at::kFloat)).to(on.device);
}

}  // namespace

RandomGroups random_groups(const OperatorCase& on, const std::vector<std::int64_t>& num_rows,
                           const std::vector<GroupRole>& roles) {
  RandomGroups groups;
  const OperatorCase wide{on.device, at::kFloat, 0};
  const std::int64_t total = std::accumulate(num_rows.begin(), num_rows.end(), std::int64_t{0});
  std::vector<std::int32_t> role_values;
  std::vector<float> weights;
  std::vector<float> margins;
  std::vector<float> next_token;
  float group = -1;
  for (std::size_t e = 0; e < roles.size(); ++e) {
    if (begins_group(roles[e])) ++group;
    role_values.push_back(static_cast<std::int32_t>(roles[e]));
    weights.push_back(0.5F + group / 4);
    margins.push_back(1.5F - group / 2);
    const float weight = learns_next_token(roles[e]) ? 0.25F + group / 8 : 0.0F;
    next_token.insert(next_token.end(), static_cast<std::size_t>(num_rows[e]), weight);
  }
  GroupRows& rows = groups.batch.groups;
  rows.num_rows = at::tensor(num_rows, at::TensorOptions(at::kLong)).to(on.device);
  rows.roles = int_tensor(on, role_values);
  rows.group_weights = floats(on, weights);
  rows.margins = floats(on, margins);
  rows.reference = random_tensor(wide, {total}, "reference").abs().neg();
  groups.batch.loss_weight = floats(on, next_token);
  groups.row_losses = random_tensor(wide, {total}, "row losses").abs();
  return groups;
}

RandomGroups random_pairs(const OperatorCase& on, const std::vector<std::int64_t>& num_rows) {
  std::vector<GroupRole> roles;
  for (std::size_t e = 0; e < num_rows.size(); ++e) {
    roles.push_back(e % 2 == 0 ? GroupRole::kChosen : GroupRole::kRejected);
  }
  return random_groups(on, num_rows, roles);
}

ByExample by_example(const RandomGroups& groups, const at::Tensor& of_rows) {
  const at::Tensor num_rows = groups.batch.groups.num_rows.cpu();
  const at::Tensor rows = of_rows.cpu().to(at::kDouble);
  ByExample examples;
  std::int64_t begin = 0;
  for (std::int64_t e = 0; e < groups.num_examples(); ++e) {
    const auto count = num_rows[e].item<std::int64_t>();
    examples.push_back(rows.narrow(0, begin, count));
    begin += count;
  }
  return examples;
}

double value_of(const at::Tensor& of_examples, std::int64_t example) {
  return of_examples[example].item<double>();
}

void expect_matches_formula(const Objective& objective, const RandomGroups& groups,
                            double next_token_weight, const GroupFormula& formula) {
  const at::Tensor log_probs = reference_leaf(groups.row_losses.neg());
  const at::Tensor weights = groups.batch.loss_weight.cpu().to(at::kDouble);
  const at::Tensor want =
      formula(by_example(groups, log_probs)) - next_token_weight * (weights * log_probs).sum();
  const at::Tensor gradient = torch::autograd::grad({want}, {log_probs})[0].neg();
  const ObjectiveValue got = objective.evaluate(groups.batch, groups.row_losses);
  constexpr double kTolerance = 1e-6;
  EXPECT_EQ(got.loss.scalar_type(), at::kFloat);
  EXPECT_EQ(got.gradient.scalar_type(), at::kFloat);
  expect_close(got.loss, want, kTolerance, "loss");
  expect_close(got.gradient, gradient, kTolerance, "gradient of row losses");
}

double statistic(const Objective& objective, const RandomGroups& groups, const std::string& name) {
  const std::vector<std::string> names = objective.statistics();
  const auto found = std::find(names.begin(), names.end(), name);
  if (found == names.end()) {
    ADD_FAILURE() << "no statistic " << name;
    return 0;
  }
  const at::Tensor sums = objective.sums(groups.batch, groups.row_losses).cpu();
  EXPECT_EQ(sums.numel(), 2 * std::ssize(names));
  const std::int64_t index = found - names.begin();
  return sums[2 * index].item<double>() / sums[2 * index + 1].item<double>();
}

}  // namespace packtrain
