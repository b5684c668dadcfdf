// The whole decoder: what packing, recomputation, tying and freezing must not change.
#include <ATen/TensorOperators.h>
#include <ATen/ops/arange.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/equal.h>
#include <ATen/ops/where.h>
#include <ATen/ops/zeros.h>
#include <ATen/ops/zeros_like.h>

#include <cmath>

#include "models/decoder/layer_operators.h"
#include "models/estimates/saved_activations.h"
#include "models/layers/routing_statistics.h"
#include "tests/models/batches.h"
#include "tests/models/cases.h"
#include "tests/models/variants.h"

namespace packtrain {
namespace {

class Decoder : public testing::TestWithParam<OperatorCase> {};
INSTANTIATE_TEST_SUITE_P(Devices, Decoder, testing::ValuesIn(operator_cases()), case_name);

const std::vector<std::int32_t> kLengths = {9, 2, 31, 1, 14};

void expect_same_grads(const TestModel::Result& got, const TestModel::Result& want,
                       double tolerance) {
  ASSERT_EQ(got.grads.size(), want.grads.size());
  for (const auto& [name, grad] : want.grads) {
    expect_close(got.grads.at(name), grad, tolerance, name);
  }
}

// Loss and gradients of each sequence alone, summed.
TestModel::Result one_by_one(TestModel& model, const Sequences& sequences,
                             const at::Device& device) {
  TestModel::Result sum;
  for (const auto& ids : sequences.ids) {
    TestModel::Result result = model.train(make_batch({{ids}}, device));
    result.loss = result.loss.to(at::kCPU, at::kDouble);
    for (auto& [name, grad] : result.grads) {
      grad = grad.to(at::kCPU, at::kDouble);
      if (sum.loss.defined()) {
        grad.add_(sum.grads.at(name));
      }
    }
    if (sum.loss.defined()) {
      result.loss.add_(sum.loss);
    }
    sum = std::move(result);
  }
  return sum;
}

TEST_P(Decoder, PackedEqualsOneByOne) {
  const OperatorCase& on = GetParam();
  for (const auto& [name, config] : decoder_variants()) {
    SCOPED_TRACE(name);
    TestModel model(config, {}, on.options());
    const Sequences sequences = random_sequences(kLengths, 61);
    const TestModel::Result alone = one_by_one(model, sequences, on.device);
    const TestModel::Result packed = model.train(make_batch(sequences, on.device));
    // Float32 sums in another order; in bfloat16 each of the gradients summed is rounded too.
    const double tolerance = on.dtype == at::kFloat ? 1e-5 : 4e-2;
    expect_close(packed.loss, alone.loss, tolerance, "loss");
    expect_same_grads(packed, alone, tolerance);
  }
}

TEST_P(Decoder, APaddingSequenceChangesNothing) {
  const OperatorCase& on = GetParam();
  TestModel model(small_config(), {}, on.options());
  Sequences sequences = random_sequences(kLengths, 61);
  const TestModel::Result plain = model.train(make_batch(sequences, on.device));
  DeviceBatch unpadded = make_batch(sequences, on.device);
  sequences.ids.emplace_back(23, 0);
  DeviceBatch padded = make_batch(sequences, on.device);
  padded.loss_index = unpadded.loss_index;
  padded.loss_labels = unpadded.loss_labels;
  padded.loss_weight = unpadded.loss_weight;
  const TestModel::Result result = model.train(padded);
  const double tolerance = on.dtype == at::kFloat ? 2e-6 : 2e-2;
  expect_close(result.loss, plain.loss, tolerance, "loss");
  expect_same_grads(result, plain, tolerance);
}

// Returns the loss that is differentiated, with the auxiliary loss of experts.
double trained_loss(TestModel& model, const ExpertsConfig& experts, DeviceBatch& batch) {
  const double loss = model.evaluate(batch).item<double>();
  if (experts.auxiliary_loss == 0) return loss;
  return loss + experts.auxiliary_loss * batch.state.routing->loss.item<double>();
}

void expect_slopes(TestModel& model, const DecoderConfig& config, DeviceBatch batch) {
  const ExpertsConfig& experts = config.experts;
  const auto& adapter = config.adapter;
  const TestModel::Result result = model.train(batch);
  for (const auto& [name, grad] : result.grads) {
    // The gradients of A and B have the norms of rows as constants.
    const bool is_of_constants = adapter != nullptr && adapter->use_dora &&
                                 (name.ends_with("lora_A") || name.ends_with("lora_B"));
    if (is_of_constants) continue;
    // Along the gradient itself the slope is its norm.
    const double norm = grad.to(at::kDouble).norm().item<double>();
    const double step = 1e-2 / norm;
    const at::Tensor value = model.value(name);
    const at::Tensor kept = value.clone();
    value.add_(grad, step / norm);
    const double above = trained_loss(model, experts, batch);
    value.copy_(kept).sub_(grad, step / norm);
    const double below = trained_loss(model, experts, batch);
    value.copy_(kept);
    EXPECT_NEAR((above - below) / (2 * step) / norm, 1.0, 2e-2) << name;
  }
}

TEST_P(Decoder, GradientsAreTheSlopesOfTheLoss) {
  const OperatorCase& on = GetParam();
  if (on.dtype != at::kFloat) {
    return;  // differences of a bfloat16 loss say nothing
  }
  for (auto& [variant, config] : decoder_variants()) {
    SCOPED_TRACE(variant);
    if (config.experts.router == RouterKind::kSparseMixer) continue;  // steps, as in the next line
    // All experts: where another one is chosen the loss has a step.
    config.experts.experts_per_token = config.experts.num_experts;
    TestModel model(config, {}, on.options());
    expect_slopes(model, config, random_batch(kLengths, 61, on.device));
  }
}

TEST_P(Decoder, RecomputationChangesNoBit) {
  const OperatorCase& on = GetParam();
  for (const auto& [name, config] : variants_and_fp8()) {
    DeviceBatch batch = random_batch(kLengths, 61, on.device);
    SCOPED_TRACE(name);
    TestModel kept(config, {}, on.options());
    const TestModel::Result want = kept.train(batch);
    const LayerPolicies by_layer(RecomputePolicy::full(), 1, RecomputePolicy::selective());
    for (const LayerPolicies& policy : {LayerPolicies(RecomputePolicy::selective()),
                                        LayerPolicies(RecomputePolicy::full()), by_layer}) {
      DecoderOptions options;
      options.recompute = policy;
      TestModel recomputed(config, options, on.options());
      // CUDA's attention adds gradients with atomics.
      const double tolerance = on.device.is_cpu() ? 0 : on.tolerance;
      expect_same_grads(recomputed.train(batch), want, tolerance);
    }
  }
}

TEST_P(Decoder, DeferredWeightGradientsHaveTheSameBits) {
  const OperatorCase& on = GetParam();
  for (const auto& [name, config] : variants_and_fp8()) {
    DeviceBatch batch = random_batch(kLengths, 61, on.device);
    for (const RecomputePolicy policy : {RecomputePolicy::none(), RecomputePolicy::full()}) {
      SCOPED_TRACE(name);
      DecoderOptions options;
      options.recompute = policy;
      TestModel model(config, options, on.options());
      const TestModel::Result want = model.train(batch);
      // CUDA's attention adds gradients with atomics.
      const double tolerance = on.device.is_cpu() ? 0 : on.tolerance;
      expect_same_grads(model.train(batch, /*deferred_weight_grads=*/true), want, tolerance);
    }
  }
}

TEST_P(Decoder, RowsWithoutALabelDoNotReachTheHeadAndChangeNothing) {
  const OperatorCase& on = GetParam();
  DeviceBatch all = random_batch(kLengths, 61, on.device);
  const std::int64_t num_rows = all.loss_index.size(0);
  const at::Tensor odd = at::arange(1, num_rows, 2, all.loss_index.options());
  DeviceBatch few = all;
  few.loss_index = all.loss_index.index_select(0, odd);
  few.loss_labels = all.loss_labels.index_select(0, odd);
  few.loss_weight = all.loss_weight.index_select(0, odd);
  DeviceBatch unweighted = all;  // the same loss by weights of 0
  unweighted.loss_weight = at::zeros_like(all.loss_weight);
  unweighted.loss_weight.index_copy_(0, odd.to(at::kLong), few.loss_weight);
  const double tolerance = on.dtype == at::kFloat ? 2e-6 : 2e-2;
  for (const auto& [name, config] : decoder_variants()) {
    SCOPED_TRACE(name);
    TestModel model(config, {}, on.options());
    const TestModel::Result got = model.train(DeviceBatch(few));  // it keeps its model's state
    const TestModel::Result want = model.train(DeviceBatch(unweighted));
    expect_close(got.loss, want.loss, tolerance, "loss");
    expect_same_grads(got, want, tolerance);
  }
}

std::map<std::string, std::int64_t> bytes_by_name(const std::vector<SavedActivation>& values) {
  std::map<std::string, std::int64_t> bytes;
  for (const SavedActivation& value : values) bytes[value.name] = value.bytes;
  return bytes;
}

// Checks a layer between others, and the last one, whose last row has no label.
void expect_saved_as_estimated(const OperatorCase& on, const DecoderConfig& config,
                               RecomputePolicy policy) {
  DeviceBatch batch = random_batch({64}, 61, on.device);
  DecoderOptions options;
  options.recompute = policy;
  TestModel model(config, options, on.options());
  const std::int64_t last = config.num_layers - 1;
  for (const std::int64_t layer : {std::int64_t{0}, last}) {
    MicroBatchShape size;
    size.num_rows = 64;
    size.num_supervised_rows = 63;
    size.compute = on.dtype;
    const auto want = bytes_by_name(saved_activations(layer_shapes(config, layer, size), policy));
    auto got = bytes_by_name(model.saved_by_layer(batch, static_cast<std::size_t>(layer)));
    if (want.contains("attention.statistics") && on.device.is_cuda()) {
      // Kernels round the rows of each sequence up and add a few numbers. Chunks are sequences.
      EXPECT_LT(got["attention.statistics"], 4 * want.at("attention.statistics") + 4096);
      got["attention.statistics"] = want.at("attention.statistics");
    }
    EXPECT_EQ(got, want) << "layer " << layer;
  }
}

TEST_P(Decoder, SavedActivationsAreThoseOfTheEstimate) {
  for (const auto& [name, config] : variants_and_fp8()) {
    SCOPED_TRACE(name);
    for (const RecomputePolicy policy :
         {RecomputePolicy::none(), RecomputePolicy::selective(), RecomputePolicy::full()}) {
      expect_saved_as_estimated(GetParam(), config, policy);
    }
  }
}

TEST_P(Decoder, FrozenParametersHaveNoGradientAndOthersTheSame) {
  const OperatorCase& on = GetParam();
  DecoderOptions options;
  TestModel whole(small_config(), options, on.options());
  options.frozen = {"embed.weight", "layers.0.*"};
  TestModel partly(small_config(), options, on.options());
  DeviceBatch batch = random_batch(kLengths, 61, on.device);
  const TestModel::Result want = whole.train(batch);
  const TestModel::Result got = partly.train(batch);
  EXPECT_FALSE(got.grads.contains("embed.weight"));
  EXPECT_FALSE(got.grads.contains("layers.0.mlp.down.bias"));
  EXPECT_EQ(got.grads.size(), 2 + 10);
  for (const auto& [name, grad] : got.grads) {
    expect_close(grad, want.grads.at(name), on.tolerance, name);
  }
}

TEST_P(Decoder, WithoutSupervisedRowsLossAndGradientsAreZero) {
  const OperatorCase& on = GetParam();
  TestModel model(small_config(), {}, on.options());
  const TestModel::Result result = model.train(random_batch({1, 1, 1}, 61, on.device));
  EXPECT_EQ(result.loss.item<float>(), 0.0F);
  for (const auto& [name, grad] : result.grads) {
    EXPECT_EQ(grad.abs().max().item<double>(), 0.0) << name;
  }
}

TEST_P(Decoder, EvaluationGivesTheSameLossAndEachRows) {
  const OperatorCase& on = GetParam();
  TestModel model(small_config(), {}, on.options());
  DeviceBatch batch = random_batch(kLengths, 61, on.device);
  const at::Tensor loss = model.train(batch).loss;
  batch.row_losses = at::empty(batch.loss_weight.sizes(), batch.loss_weight.options());
  EXPECT_EQ(model.evaluate(batch).item<float>(), loss.item<float>());
  expect_close((batch.row_losses * batch.loss_weight).sum(), loss, 1e-6, "sum of rows");
}

TEST_P(Decoder, EvaluationWritesWhetherLabelsAreGreedyOnRequest) {
  const OperatorCase& on = GetParam();
  TestModel model(small_config(), {}, on.options());
  DeviceBatch batch = random_batch(kLengths, 61, on.device);
  const at::Tensor logits = model.logits(batch).index_select(0, batch.loss_index);
  const at::Tensor greedy = logits.argmax(1).to(at::kInt);
  const at::Tensor is_even = at::arange(greedy.size(0), greedy.options()).remainder(2).eq(0);
  batch.loss_labels = at::where(is_even, greedy, batch.loss_labels).to(at::kInt);
  batch.row_greedy = at::zeros(greedy.sizes(), greedy.options().dtype(at::kBool));
  model.evaluate(batch);
  EXPECT_TRUE(at::equal(batch.row_greedy, greedy.eq(batch.loss_labels)));
  EXPECT_FALSE(batch.row_greedy.all().item<bool>());
}

TEST_P(Decoder, EvaluationWritesTheLogitsOfSupervisedRowsOnRequest) {
  const OperatorCase& on = GetParam();
  for (const auto& [name, config] : decoder_variants()) {
    SCOPED_TRACE(name);
    TestModel model(config, {}, on.options());
    DeviceBatch batch = random_batch(kLengths, 61, on.device);
    const at::Tensor all = model.logits(batch);
    batch.row_logits =
        at::empty({batch.loss_index.size(0), all.size(1)}, batch.loss_weight.options());
    model.evaluate(batch);
    expect_close(batch.row_logits, all.index_select(0, batch.loss_index), 1e-6, "logits");
  }
}

}  // namespace
}  // namespace packtrain
