// Decoders with experts: what balances them belongs to examples, wherever these lie.
#include <ATen/TensorOperators.h>
#include <ATen/ops/stack.h>
#include <ATen/ops/zeros.h>

#include <algorithm>

#include "models/decoder/decoder.h"
#include "models/estimates/flops.h"
#include "models/layers/routing_statistics.h"
#include "tests/models/batches.h"
#include "tests/models/cases.h"
#include "tests/models/variants.h"

namespace packtrain {
namespace {

class ExpertLayers : public testing::TestWithParam<OperatorCase> {};
INSTANTIATE_TEST_SUITE_P(Devices, ExpertLayers, testing::ValuesIn(operator_cases()), case_name);

const std::vector<std::int32_t> kSequenceLengths = {9, 2, 31, 1, 14};

// Experts in both layers.
DecoderConfig experts_in_both_layers() {
  const std::vector<Variant> variants = decoder_variants();
  return std::ranges::find(variants, "experts with an auxiliary loss", &Variant::name)->config;
}

double tolerance_of(const OperatorCase& on) {
  return on.dtype == at::kFloat ? 5e-6 : 4e-2;
}

TEST_P(ExpertLayers, AuxiliaryLossesOfMicroBatchesAddUpToThatOfOne) {
  const OperatorCase& on = GetParam();
  TestModel model(experts_in_both_layers(), {}, on.options());
  const Sequences sequences = random_sequences(kSequenceLengths, 61);
  DeviceBatch packed = make_batch(sequences, on.device);
  model.train(packed);
  at::Tensor sum = at::zeros({}, packed.loss_weight.options());
  for (const auto& ids : sequences.ids) {
    DeviceBatch alone = make_batch({{ids}}, on.device);
    model.train(alone);
    sum.add_(alone.state.routing->loss);
  }
  expect_close(packed.state.routing->loss, sum, tolerance_of(on), "auxiliary loss");
}

// Sequences of 40 rows that are real as far as kSequenceLengths says. Pads are token 0.
DeviceBatch padded_batch(const OperatorCase& on, Sequences sequences, const DeviceBatch& plain) {
  for (auto& ids : sequences.ids) ids.resize(40);
  DeviceBatch padded = make_batch(sequences, on.device);
  std::vector<std::int32_t> begins;
  std::vector<std::int32_t> ends;
  std::vector<std::int32_t> index;
  for (std::size_t s = 0; s < kSequenceLengths.size(); ++s) {
    begins.push_back(static_cast<std::int32_t>(40 * s));
    ends.push_back(begins.back() + kSequenceLengths[s]);
    for (std::int32_t i = 0; i + 1 < kSequenceLengths[s]; ++i) index.push_back(begins.back() + i);
  }
  padded.examples = at::stack({int_tensor(on, begins), int_tensor(on, ends)});
  padded.loss_index = int_tensor(on, index);
  padded.loss_labels = plain.loss_labels;
  padded.loss_weight = plain.loss_weight;
  return padded;
}

// Pads follow an example. They belong to its sequence in attention, but not to the balancing loss.
TEST_P(ExpertLayers, PadsInsideASequenceLeaveTheAuxiliaryLossAsItIs) {
  const OperatorCase& on = GetParam();
  TestModel model(experts_in_both_layers(), {}, on.options());
  const Sequences sequences = random_sequences(kSequenceLengths, 61);
  DeviceBatch plain = make_batch(sequences, on.device);
  const TestModel::Result want = model.train(plain);
  DeviceBatch padded = padded_batch(on, sequences, plain);
  const TestModel::Result got = model.train(padded);
  expect_close(padded.state.routing->loss, plain.state.routing->loss, tolerance_of(on),
               "auxiliary loss");
  // In bfloat16 attention's rounding may change a choice.
  expect_close(padded.state.routing->counts, plain.state.routing->counts,
               on.dtype == at::kFloat ? 0 : 0.1, "choices");
  ASSERT_EQ(got.grads.size(), want.grads.size());
  for (const auto& [name, grad] : want.grads) {
    expect_close(got.grads.at(name), grad, tolerance_of(on), name);
  }
}

TEST_P(ExpertLayers, WithoutAuxiliaryLossChoicesAreCountedTogetherAndPadsAreNot) {
  const OperatorCase& on = GetParam();
  DecoderConfig config = experts_in_both_layers();
  const Sequences sequences = random_sequences(kSequenceLengths, 61);
  DeviceBatch by_example = make_batch(sequences, on.device);
  TestModel(config, {}, on.options()).train(by_example);
  config.experts.auxiliary_loss = 0;
  TestModel model(config, {}, on.options());
  DeviceBatch plain = make_batch(sequences, on.device);
  model.train(plain);
  DeviceBatch padded = padded_batch(on, sequences, plain);
  model.train(padded);
  // The last layer has rows with a label alone: all layers of the first batch had all.
  const auto first_layer = [](const DeviceBatch& batch) {
    return batch.state.routing->counts.select(0, 0).sum(at::IntArrayRef{0});
  };
  const double tolerance = on.dtype == at::kFloat ? 0 : 0.1;
  expect_close(first_layer(plain), first_layer(by_example), 0, "choices");
  expect_close(padded.state.routing->counts, plain.state.routing->counts, tolerance,
               "choices with pads");
  EXPECT_EQ(plain.state.routing->counts.size(1), 1);
}

// Two experts of which each token goes to both: f = 1 and P = 1 / 2 of either.
TEST_P(ExpertLayers, TheAuxiliaryLossOfEvenExpertsIsTheNumberChosen) {
  const OperatorCase& on = GetParam();
  DecoderConfig config = experts_in_both_layers();
  config.experts.num_experts = config.experts.experts_per_token = 2;
  TestModel model(config, {}, on.options());
  model.value("layers.0.mlp.router.weight").zero_();
  model.value("layers.1.mlp.router.weight").zero_();
  DeviceBatch batch = random_batch(kSequenceLengths, 61, on.device);
  model.train(batch);
  expect_close(batch.state.routing->loss, batch.loss_weight.sum() * 2, 1e-6, "auxiliary loss");
  EXPECT_EQ(batch.state.routing->counts.sum().item<double>(), 2 * 2 * batch.num_rows());
}

TEST(ExpertParameters, FlopsCountTheExpertsOfATokenAndParametersAll) {
  DecoderConfig config = experts_in_both_layers();
  const std::int64_t attention = 32 * (4 + 2 * 2) * 8 + 32 * 32;
  const std::int64_t expert = 3 * 32 * 20;
  const std::int64_t other = 7 * 32 + 3 * 32 * 40;  // router, shared expert
  EXPECT_EQ(num_matmul_parameters(config), 2 * (attention + other + 3 * expert) + 61 * 32);
  EXPECT_EQ(num_parameters(config),
            2 * (attention + other + 7 * expert + 2 * 32) + 32 + 2 * 61 * 32);
  config.layers = {{}, {.experts = true}};
  EXPECT_EQ(num_matmul_parameters(config),
            2 * attention + 3 * 32 * 48 + other + 3 * expert + 61 * 32);
}

}  // namespace
}  // namespace packtrain
