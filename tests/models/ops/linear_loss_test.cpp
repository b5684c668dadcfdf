// The head's loss and gradients against float64, per device and dtype.
#include "models/ops/linear_cross_entropy/linear_loss.h"

#include <ATen/TensorOperators.h>
#include <ATen/ops/full_like.h>
#include <ATen/ops/logsumexp.h>
#include <ATen/ops/matmul.h>
#include <ATen/ops/tanh.h>
#include <ATen/ops/tensor.h>
#include <ATen/ops/zeros_like.h>
#include <torch/csrc/autograd/autograd.h>

#include <algorithm>
#include <cmath>
#include <optional>
#include <vector>

#include "models/ops/linear_cross_entropy/cross_entropy.h"
#include "tests/models/cases.h"

namespace packtrain::linear_loss_test {
namespace {

class LinearLoss : public testing::TestWithParam<OperatorCase> {};
INSTANTIATE_TEST_SUITE_P(Devices, LinearLoss, testing::ValuesIn(operator_cases()), case_name);

struct LossCase {
  at::Tensor x;
  Parameter weight;
  CrossEntropyTargets targets;
  std::optional<Parameter> bias = {};

  const Parameter* bias_or_null() const { return bias ? &*bias : nullptr; }
};

struct CaseOptions {
  double soft_cap = 0;
  std::int64_t chunk_rows = 0;
  bool known_late = false;  // weights are known when all row losses are
};

struct CrossEntropyOutput {
  at::Tensor loss;
  at::Tensor grad_x;
};

CrossEntropyOutput linear_cross_entropy(const at::Tensor& x, const Parameter& weight,
                                        const CrossEntropyTargets& targets, bool gradients,
                                        const CaseOptions& options = {},
                                        const Parameter* bias = nullptr) {
  const auto loss = [&](const LogitsChunk& chunk) {
    const auto of_chunk = [&](const at::Tensor& rows) {
      return rows.narrow(0, chunk.begin, chunk.logits.size(0));
    };
    cross_entropy(chunk.logits,
                  {of_chunk(targets.labels), chunk.weights, of_chunk(targets.row_losses)},
                  {.soft_cap = options.soft_cap});
  };
  RowWeights weights{.known = targets.weights};
  if (options.known_late) weights = {.from_losses = [&] { return targets.weights; }};
  const at::Tensor grad_x = linear_loss(
      x, weight, bias,
      {.gradients = gradients, .weights = weights, .chunk_rows = options.chunk_rows}, loss);
  return {(targets.row_losses * targets.weights).sum(), grad_x};
}

LossCase loss_case(const OperatorCase& on, std::int64_t rows, std::int64_t vocab_size,
                   bool float_gradient = false) {
  LossCase loss;
  loss.x = random_tensor(on, {rows, 16}, "x");
  loss.weight = random_parameter(on, {vocab_size, 16}, "weight");
  if (float_gradient) {
    loss.weight.grad = at::full_like(loss.weight.grad, std::nan(""), at::kFloat);
  }
  std::vector<std::int32_t> labels;
  for (std::int64_t i = 0; i < rows; ++i) {
    labels.push_back(static_cast<std::int32_t>((i * 7919 + i * i * 3) % vocab_size));
  }
  if (rows > 1) labels.back() = static_cast<std::int32_t>(vocab_size - 1);
  loss.targets.labels = at::tensor(labels, at::TensorOptions(at::kInt)).to(on.device);
  const OperatorCase wide{on.device, at::kFloat, 0};
  loss.targets.weights = random_tensor(wide, {rows}, "row weights");
  loss.targets.row_losses = at::full_like(loss.targets.weights, std::nan(""));
  return loss;
}

// Row losses in float64.
at::Tensor formula(const at::Tensor& x, const at::Tensor& weight, const at::Tensor& bias,
                   const at::Tensor& labels, const CaseOptions& options) {
  at::Tensor s = at::matmul(x, weight.t()) + bias;
  if (options.soft_cap > 0) s = at::tanh(s / options.soft_cap) * options.soft_cap;
  const at::Tensor log_sum = at::logsumexp(s, at::IntArrayRef{1});
  return log_sum - s.gather(1, labels.to(at::kCPU, at::kLong).unsqueeze(1)).squeeze(1);
}

void expect_matches_formula(const OperatorCase& on, LossCase loss, const CaseOptions& options) {
  const at::Tensor x = reference_leaf(loss.x);
  const at::Tensor weight = reference_leaf(loss.weight.value);
  const at::Tensor bias =
      reference_leaf(loss.bias ? loss.bias->value : at::zeros_like(loss.weight.value.select(1, 0)));
  const at::Tensor row_losses = formula(x, weight, bias, loss.targets.labels, options);
  const at::Tensor want = (row_losses * loss.targets.weights.to(at::kCPU, at::kDouble)).sum();
  const auto grads = torch::autograd::grad({want}, {x, weight, bias});

  const auto got =
      linear_cross_entropy(loss.x, loss.weight, loss.targets, true, options, loss.bias_or_null());
  EXPECT_EQ(got.loss.scalar_type(), at::kFloat);
  expect_close(got.loss, want, on.tolerance, "loss");
  expect_close(loss.targets.row_losses, row_losses, on.tolerance, "row losses");
  expect_close(got.grad_x, grads[0], on.tolerance, "d x");
  expect_close(loss.weight.grad, grads[1], on.tolerance, "d weight");
  if (loss.bias) expect_close(loss.bias->grad, grads[2], on.tolerance, "d bias");
  loss.weight.accumulate = true;
  linear_cross_entropy(loss.x, loss.weight, loss.targets, true, options, loss.bias_or_null());
  expect_close(loss.weight.grad, grads[1] * 2, on.tolerance, "d weight, added");
}

constexpr std::pair<std::int64_t, std::int64_t> kShapes[] = {  // rows, vocabulary
    {1, 8},
    {7, 33},
    {70, 1001},
    {130, 4099}};

TEST_P(LinearLoss, MatchesItsFormula) {
  const OperatorCase& on = GetParam();
  for (const auto& [rows, vocab_size] : kShapes) {
    expect_matches_formula(on, loss_case(on, rows, vocab_size), {});
    expect_matches_formula(on, loss_case(on, rows, vocab_size, /*float_gradient=*/true), {});
  }
}

// Vocabularies of Llama 3 and Gemma: more than one block's, and one cluster's, shared memory.
TEST_P(LinearLoss, MatchesItsFormulaForLargeVocabularies) {
  OperatorCase on = GetParam();
  on.tolerance = std::max(on.tolerance, 1e-4);  // d x sums as many float32 as there are words
  expect_matches_formula(on, loss_case(on, 9, 128256), {});
  expect_matches_formula(on, loss_case(on, 5, 262144), {});
  expect_matches_formula(on, loss_case(on, 3, 600001), {});
}

TEST_P(LinearLoss, CapsLogits) {
  const OperatorCase& on = GetParam();
  for (const auto& [rows, vocab_size] : kShapes) {
    expect_matches_formula(on, loss_case(on, rows, vocab_size), {.soft_cap = 5.0});
  }
}

TEST_P(LinearLoss, SumsWeightGradientsOverChunks) {
  const OperatorCase& on = GetParam();
  for (const std::int64_t chunk_rows : {1, 50, 129}) {
    expect_matches_formula(on, loss_case(on, 130, 1001), {.chunk_rows = chunk_rows});
    expect_matches_formula(on, loss_case(on, 130, 1001, /*float_gradient=*/true),
                           {.chunk_rows = chunk_rows});
  }
}

TEST_P(LinearLoss, AddsABiasAndSumsItsGradientOverChunks) {
  const OperatorCase& on = GetParam();
  for (const std::int64_t chunk_rows : {0, 50, 129}) {
    for (const at::ScalarType grad_dtype : {at::kFloat, on.dtype}) {
      LossCase loss = loss_case(on, 130, 1001);
      loss.bias = random_parameter(on, {1001}, "bias", grad_dtype);
      expect_matches_formula(on, loss, {.chunk_rows = chunk_rows});
      expect_matches_formula(on, loss, {.soft_cap = 5.0, .chunk_rows = chunk_rows});
    }
  }
}

// The last few words add less to each row's d x than half a unit in the last place of bfloat16. If
// each row rounded it away, it would be missing in the weights' gradients, which sum over rows.
TEST_P(LinearLoss, WordsBeyondAMultipleOf8AreNotRoundedAway) {
  const OperatorCase& on = GetParam();
  LossCase loss = loss_case(on, 2000, 1003);
  loss.targets.weights.fill_(1);
  loss.x = loss.x.mul(0.1);  // all words have nearly equal logits
  const at::Tensor x = reference_leaf(loss.x);
  const at::Tensor weight = reference_leaf(loss.weight.value);
  const at::Tensor want =
      formula(x, weight, at::zeros_like(weight.select(1, 0)), loss.targets.labels, {}).sum();
  const at::Tensor grad = torch::autograd::grad({want}, {x})[0];
  const auto got = linear_cross_entropy(loss.x, loss.weight, loss.targets, true, {});
  expect_close(wide_copy(got.grad_x).sum(0), grad.sum(0), 0.003, "sum of d x over rows");
}

TEST_P(LinearLoss, TouchesNoGradientInEvaluation) {
  const OperatorCase& on = GetParam();
  const LossCase loss = loss_case(on, 20, 30);
  const CrossEntropyOutput trained = linear_cross_entropy(loss.x, loss.weight, loss.targets, true);
  loss.weight.grad.fill_(5.0);
  const CrossEntropyOutput output = linear_cross_entropy(loss.x, loss.weight, loss.targets, false);
  EXPECT_EQ(output.loss.item<float>(), trained.loss.item<float>());
  EXPECT_FALSE(output.grad_x.defined());
  EXPECT_EQ(loss.weight.grad.min().item<double>(), 5.0);
}

TEST_P(LinearLoss, SkipsAFrozenWeight) {
  const OperatorCase& on = GetParam();
  LossCase loss = loss_case(on, 20, 30);
  const CrossEntropyOutput trained = linear_cross_entropy(loss.x, loss.weight, loss.targets, true);
  loss.weight.grad.reset();
  for (const std::int64_t chunk_rows : {0, 6}) {
    const CrossEntropyOutput frozen =
        linear_cross_entropy(loss.x, loss.weight, loss.targets, true, {.chunk_rows = chunk_rows});
    expect_close(frozen.grad_x, trained.grad_x, on.tolerance, "d x");
  }
}

TEST_P(LinearLoss, OfNoRowsIsZeroWithZeroGradients) {
  const OperatorCase& on = GetParam();
  LossCase loss = loss_case(on, 0, 30);
  const CrossEntropyOutput output = linear_cross_entropy(loss.x, loss.weight, loss.targets, true);
  EXPECT_EQ(output.loss.item<float>(), 0.0F);
  EXPECT_EQ(loss.weight.grad.abs().max().item<double>(), 0.0);
  loss.weight.grad.fill_(5.0);
  loss.weight.accumulate = true;
  linear_cross_entropy(loss.x, loss.weight, loss.targets, true);
  EXPECT_EQ(loss.weight.grad.min().item<double>(), 5.0) << "the other use's gradient was lost";
}

// With weights that depend on row losses, gradients are those of known weights.
TEST_P(LinearLoss, MatchesItsFormulaWithWeightsThatAreKnownLate) {
  const OperatorCase& on = GetParam();
  for (const std::int64_t chunk_rows : {0, 50}) {
    LossCase loss = loss_case(on, 130, 1001);
    loss.bias = random_parameter(on, {1001}, "bias");
    expect_matches_formula(on, loss,
                           {.soft_cap = 5.0, .chunk_rows = chunk_rows, .known_late = true});
  }
}

TEST_P(LinearLoss, OfAFrozenWeightIsScaledByWeightsThatAreKnownLate) {
  const OperatorCase& on = GetParam();
  LossCase loss = loss_case(on, 20, 30);
  const CrossEntropyOutput trained = linear_cross_entropy(loss.x, loss.weight, loss.targets, true);
  loss.weight.grad.reset();
  for (const std::int64_t chunk_rows : {0, 6}) {
    const CrossEntropyOutput frozen = linear_cross_entropy(
        loss.x, loss.weight, loss.targets, true, {.chunk_rows = chunk_rows, .known_late = true});
    expect_close(frozen.grad_x, trained.grad_x, on.tolerance, "d x");
  }
}

using ChunkCalls = std::vector<std::pair<std::int64_t, bool>>;

// Each call of the function: the first row of its chunk, and whether it has weights.
ChunkCalls calls(const LossCase& loss, std::int64_t chunk_rows) {
  ChunkCalls chunks;
  const auto num_chunks = static_cast<std::size_t>((5 + chunk_rows - 1) / chunk_rows);
  const auto weights = [&] {
    EXPECT_EQ(chunks.size(), num_chunks) << "weights were asked for before all row losses";
    return loss.targets.weights;
  };
  linear_loss(
      loss.x, loss.weight, nullptr,
      {.gradients = true, .weights = {.from_losses = weights}, .chunk_rows = chunk_rows},
      [&](const LogitsChunk& chunk) { chunks.emplace_back(chunk.begin, chunk.weights.defined()); });
  return chunks;
}

TEST_P(LinearLoss, GivesAllChunksBeforeTheirWeights) {
  LossCase loss = loss_case(GetParam(), 5, 30);
  EXPECT_EQ(calls(loss, 2),
            (ChunkCalls{{0, false}, {2, false}, {4, false}, {0, true}, {2, true}, {4, true}}));
  EXPECT_EQ(calls(loss, 5), (ChunkCalls{{0, false}, {0, true}}));
}

TEST_P(LinearLoss, OfAFrozenWeightGivesEachChunkOnce) {
  LossCase loss = loss_case(GetParam(), 5, 30);
  loss.weight.grad.reset();
  EXPECT_EQ(calls(loss, 2), (ChunkCalls{{0, true}, {2, true}, {4, true}}));
  EXPECT_EQ(calls(loss, 5), (ChunkCalls{{0, true}}));
}

TEST(HeadChunks, AreOneUntilLogitsTakeMoreThanAFloat32SumWould) {
  HeadSize size{.num_rows = 8192,
                .vocab_size = 128256,
                .hidden_size = 4096,
                .element_bytes = 2,
                .narrow_gradient = false};
  EXPECT_EQ(plan_head_chunks(size, true).rows, 8192);
  size.num_rows = 16384;
  EXPECT_EQ(plan_head_chunks(size, true).rows, 8192);
  EXPECT_EQ(plan_head_chunks(size, true).logits_bytes, 8192LL * 128256 * 2);
  EXPECT_EQ(plan_head_chunks(size, true).gradient_bytes, 0);
  size.narrow_gradient = true;  // 4.2 GB of logits, but a float32 sum would take as much
  EXPECT_EQ(plan_head_chunks(size, true).rows, 16384);
  size.num_rows = 32768;
  const HeadChunks chunks = plan_head_chunks(size, true);
  EXPECT_EQ(chunks.rows, 8192);
  EXPECT_EQ(chunks.logits_bytes, 8192LL * 128256 * 2);
  EXPECT_EQ(chunks.gradient_bytes, 128256LL * 4096 * 4);
  EXPECT_EQ(chunks.weight_bytes, 0);
  size.vocab_size = 49155;
  EXPECT_EQ(plan_head_chunks(size, true).weight_bytes, 49160LL * 4096 * 2);
}

}  // namespace
}  // namespace packtrain::linear_loss_test
