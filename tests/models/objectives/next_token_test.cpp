#include "models/objectives/next_token.h"

#include <ATen/TensorOperators.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/full_like.h>
#include <ATen/ops/logsumexp.h>
#include <ATen/ops/softmax.h>
#include <ATen/ops/tensor.h>
#include <ATen/ops/zeros_like.h>

#include <cmath>
#include <memory>
#include <vector>

#include "tests/models/batches.h"
#include "tests/models/cases.h"

namespace packtrain::next_token_test {
namespace {

constexpr std::int64_t kVocab = 50;

class NextTokenObjective : public testing::TestWithParam<OperatorCase> {};
INSTANTIATE_TEST_SUITE_P(Devices, NextTokenObjective, testing::ValuesIn(operator_cases()),
                         case_name);

TEST_P(NextTokenObjective, WritesOnlyTheRowsOfItsChunk) {
  const OperatorCase& on = GetParam();
  const NextToken objective;
  const DeviceBatch batch = random_batch({4, 3}, kVocab, on.device);  // 5 supervised rows
  const at::Tensor all = random_tensor(on, {5, 56}, "logits").narrow(1, 0, kVocab);
  const at::Tensor logits = all.to(at::kDouble);
  const at::Tensor labels = batch.loss_labels.to(at::kLong).unsqueeze(1);
  const at::Tensor want =
      at::logsumexp(logits, at::IntArrayRef{1}) - logits.gather(1, labels).squeeze(1);
  const at::Tensor row_losses = at::full_like(batch.loss_weight, -1.0);
  objective.evaluate({all.narrow(0, 2, 2), 2}, batch, row_losses, /*gradients=*/false);
  expect_close(row_losses.narrow(0, 2, 2), want.narrow(0, 2, 2), on.tolerance, "losses");
  EXPECT_EQ(row_losses.narrow(0, 0, 2).max().item<float>(), -1.0F);
  EXPECT_EQ(row_losses[4].item<float>(), -1.0F);
}

TEST_P(NextTokenObjective, WeighsTheLossesOfRows) {
  const OperatorCase& on = GetParam();
  const DeviceBatch batch = random_batch({3}, kVocab, on.device);  // weights 0.5 and 0.5 + 1 / 64
  const at::Tensor row_losses = at::full_like(batch.loss_weight, 2.0);
  EXPECT_EQ(NextToken().loss(batch, row_losses).item<float>(), 2 + 2.0F / 64);
}

// - log of the mean probability of the labels of all rows: each gradient needs all rows' losses.
class MeanProbability final : public Objective {
 public:
  bool takes_two_passes() const override { return true; }
  void evaluate(const HeadLogits& chunk, const DeviceBatch& batch, const at::Tensor& row_losses,
                bool gradients) const override {
    const at::Tensor weights = at::softmax(row_losses.neg(), 0);  // of the first pass
    DeviceBatch weighted = batch;
    weighted.loss_weight = weights;
    next_token_.evaluate(chunk, weighted, row_losses, gradients);
  }
  at::Tensor loss(const DeviceBatch& batch, const at::Tensor& row_losses) const override {
    const auto num_rows = static_cast<double>(batch.loss_weight.numel());
    return std::log(num_rows) - at::logsumexp(row_losses.neg(), at::IntArrayRef{0});
  }

 private:
  NextToken next_token_;
};

TEST(TwoPassObjective, HasTheGradientOfItsLoss) {
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
