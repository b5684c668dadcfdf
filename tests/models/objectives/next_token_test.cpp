#include "models/objectives/next_token.h"

#include <ATen/TensorOperators.h>
#include <ATen/ops/equal.h>
#include <ATen/ops/full_like.h>
#include <ATen/ops/logsumexp.h>
#include <ATen/ops/softmax.h>

#include <cmath>
#include <memory>

#include "tests/models/batches.h"
#include "tests/models/cases.h"

namespace packtrain::next_token_test {
namespace {

constexpr std::int64_t kVocab = 50;

class NextTokenObjective : public testing::TestWithParam<OperatorCase> {};
INSTANTIATE_TEST_SUITE_P(Devices, NextTokenObjective, testing::ValuesIn(operator_cases()),
                         case_name);

TEST_P(NextTokenObjective, WeighsTheLossesOfRows) {
  const OperatorCase& on = GetParam();
  const DeviceBatch batch = random_batch({3}, kVocab, on.device);  // weights 0.5 and 0.5 + 1 / 64
  const at::Tensor row_losses = at::full_like(batch.loss_weight, 2.0);
  const ObjectiveValue value = NextToken().evaluate(batch, row_losses);
  EXPECT_EQ(value.loss.item<float>(), 2 + 2.0F / 64);
  EXPECT_TRUE(at::equal(value.gradient, batch.loss_weight));
}

// - log of the mean probability of the labels of all rows: each gradient needs all rows' losses.
class MeanProbability final : public Objective {
 public:
  bool is_linear() const override { return false; }
  ObjectiveValue evaluate(const DeviceBatch& /*batch*/,
                          const at::Tensor& row_losses) const override {
    const at::Tensor log_probs = row_losses.neg();
    return {std::log(static_cast<double>(row_losses.numel())) -
                at::logsumexp(log_probs, at::IntArrayRef{0}),
            at::softmax(log_probs, 0)};
  }
};

TEST(NonlinearObjective, HasTheGradientOfItsLoss) {
  DecoderOptions options;
  options.objective = std::make_shared<MeanProbability>();
  TestModel model(small_config(), options, at::TensorOptions(at::kFloat));
  DeviceBatch batch = random_batch({5, 3, 7}, 40, at::kCPU);
  const TestModel::Result result = model.train(batch);
  const at::Tensor weight = model.value("final_norm.weight");
  const at::Tensor grad = result.grads.at("final_norm.weight");
  EXPECT_EQ(model.evaluate(batch).item<float>(), result.loss.item<float>());
  constexpr double kStep = 1e-2;
  for (const std::int64_t element : {0, 3}) {
    const at::Tensor one = weight[element];
    one.add_(kStep);
    const double above = model.evaluate(batch).item<double>();
    one.sub_(2 * kStep);
    const double below = model.evaluate(batch).item<double>();
    one.add_(kStep);
    EXPECT_NEAR((above - below) / (2 * kStep), grad[element].item<double>(), 1e-3);
  }
}

}  // namespace
}  // namespace packtrain::next_token_test
