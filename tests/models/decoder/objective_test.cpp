// Decoders whose loss is an objective of groups. The next-token loss has the same gradients where
// its weights are the gradients of row losses. Other tests compare those of next tokens with
// float64, and the gradients of row losses with formulas.
#include "models/objectives/objective.h"

#include <ATen/TensorOperators.h>
#include <ATen/ops/empty_like.h>
#include <ATen/ops/tensor.h>

#include <memory>
#include <string>
#include <vector>

#include "framework/data/example_groups.h"
#include "models/objectives/make_objective.h"
#include "tests/models/batches.h"
#include "tests/models/cases.h"
#include "tests/models/variants.h"

namespace packtrain::decoder_objective_test {
namespace {

constexpr double kTolerance = 3e-5;
const at::TensorOptions kFloats(at::kFloat);
using Grads = std::map<std::string, at::Tensor>;

ObjectiveSection section_of(ObjectiveKind kind) {
  ObjectiveSection section{.kind = kind};
  section.beta = 0.5;
  return section;
}

// Two pairs: four examples, each with all rows but the last supervised.
DeviceBatch pair_batch(const std::vector<std::int32_t>& lengths, std::int32_t vocab_size) {
  DeviceBatch batch = random_batch(lengths, vocab_size, at::kCPU);
  std::vector<std::int64_t> num_rows;
  for (const std::int32_t length : lengths) num_rows.push_back(length - 1);
  GroupRows& groups = batch.groups;
  groups.num_rows = at::tensor(num_rows, at::TensorOptions(at::kLong));
  groups.roles = at::tensor({0, 1, 0, 1}, at::TensorOptions(at::kInt));
  groups.group_weights = at::tensor({0.25F, 0.25F, 0.75F, 0.75F}, kFloats);
  const std::int64_t total = batch.loss_weight.size(0);
  const OperatorCase on{at::kCPU, at::kFloat, 0};
  groups.reference = random_tensor(on, {total}, "reference").abs().neg();
  groups.columns["advantage"] = random_tensor(on, {total}, "advantage");
  groups.columns["old_log_prob"] = groups.reference;
  return batch;
}

at::Tensor row_losses_of(TestModel& model, DeviceBatch batch) {
  batch.only_row_losses = true;
  batch.row_losses = at::empty_like(batch.loss_weight);
  EXPECT_EQ(model.evaluate(batch).item<float>(), 0);
  return batch.row_losses;
}

struct Trained {
  TestModel::Result result;
  Grads of_known_weights;
  at::Tensor loss;  // of the row losses
};

Trained train(const DecoderConfig& config, const ObjectiveSection& section, DeviceBatch batch,
              const std::vector<std::string>& frozen = {}) {
  const std::shared_ptr<const Objective> objective = make_objective(section);
  TestModel model(config, {.frozen = frozen, .objective = objective}, kFloats);
  TestModel next_token(config, {.frozen = frozen}, kFloats);
  Trained trained;
  trained.result = model.train(batch);
  const ObjectiveValue value = objective->evaluate(batch, row_losses_of(model, batch));
  trained.loss = value.loss;
  batch.loss_weight = value.gradient;
  trained.of_known_weights = next_token.train(batch).grads;
  return trained;
}

void expect_close(const Grads& got, const Grads& want) {
  ASSERT_EQ(got.size(), want.size());
  for (const auto& [name, grad] : want)
    packtrain::expect_close(got.at(name), grad, kTolerance, name);
}

void expect_own_gradients(const Trained& trained) {
  packtrain::expect_close(trained.result.loss, trained.loss, kTolerance, "loss");
  expect_close(trained.result.grads, trained.of_known_weights);
}

TEST(DecoderObjective, HasTheGradientsOfEveryKind) {
  const DeviceBatch batch = pair_batch({6, 4, 9, 5}, 61);
  for (const ObjectiveKind kind :
       {ObjectiveKind::kDpo, ObjectiveKind::kIpo, ObjectiveKind::kOrpo, ObjectiveKind::kSimpo,
        ObjectiveKind::kCpo, ObjectiveKind::kPolicy}) {
    SCOPED_TRACE(static_cast<int>(kind));
    expect_own_gradients(train(small_config(), section_of(kind), batch));
  }
}

TEST(DecoderObjective, HasTheGradientsOfEveryDecoder) {
  for (const auto& [name, config] : decoder_variants()) {
    // It is weighted by loss_weight, which the comparison replaces.
    if (config.experts.auxiliary_loss > 0) continue;
    SCOPED_TRACE(name);
    const DeviceBatch batch =
        pair_batch({6, 4, 9, 5}, static_cast<std::int32_t>(config.vocab_size));
    expect_own_gradients(train(config, section_of(ObjectiveKind::kDpo), batch));
  }
}

// The head computes this number of logits in several chunks.
constexpr std::int32_t kLargeVocab = 40000;

DecoderConfig many_chunks() {
  DecoderConfig config = small_config();
  config.vocab_size = kLargeVocab;
  config.logit_soft_cap = 20;
  config.logit_multiplier = 1.5;
  config.head_bias = true;
  return config;
}

// Of long answers: sums over their tokens would be far apart, and gradients zero.
ObjectiveSection of_means() {
  ObjectiveSection section = section_of(ObjectiveKind::kDpo);
  section.length_normalize = true;
  return section;
}

TEST(DecoderObjective, HasTheSameGradientsInSeveralChunks) {
  const DeviceBatch batch = pair_batch({60, 140, 30, 99}, kLargeVocab);
  const Trained trained = train(many_chunks(), of_means(), batch);
  expect_own_gradients(trained);
  EXPECT_GT(trained.result.grads.at("head.weight").abs().max().item<double>(), 0);
}

TEST(DecoderObjective, HasTheSameOtherGradientsUnderAFrozenHead) {
  const std::vector<std::string> head = {"head.weight", "head.bias"};
  for (DecoderConfig config : {small_config(), many_chunks()}) {
    config.head_bias = true;
    const DeviceBatch batch =
        pair_batch({60, 140, 30, 99}, static_cast<std::int32_t>(config.vocab_size));
    Grads trained = train(config, of_means(), batch).result.grads;
    for (const std::string& name : head) trained.erase(name);
    const Trained frozen = train(config, of_means(), batch, head);
    packtrain::expect_close(frozen.result.loss, frozen.loss, kTolerance, "loss");
    expect_close(frozen.result.grads, trained);
  }
}

TEST(DecoderObjective, HasTheGradientsOfAnAdapterOfTheHead) {
  AdapterTargets adapter;
  adapter.weights["head.weight"] = {{"lm_head", 0, kLargeVocab, 4, 8.0}};
  adapter.weights["layers.0.mlp.down.weight"] = {{"down_proj", 0, 32, 4, 8.0}};
  DecoderConfig config = many_chunks();
  config.adapter = std::make_shared<const AdapterTargets>(adapter);
  const DeviceBatch batch = pair_batch({60, 140, 30, 99}, kLargeVocab);
  const Trained trained = train(config, of_means(), batch);
  expect_own_gradients(trained);
  EXPECT_GT(trained.result.grads.at("head.lora_A").abs().max().item<double>(), 0);
}

// Pair `index` of a batch of two, with its weights.
DeviceBatch alone(const DeviceBatch& all, const std::vector<std::int32_t>& lengths,
                  std::int64_t index) {
  const auto first = static_cast<std::size_t>(2 * index);
  const std::int64_t rows_before = index == 0 ? 0 : lengths[0] + lengths[1] - 2;
  const std::int64_t num_rows = lengths[first] + lengths[first + 1] - 2;
  const std::int64_t tokens_before = index == 0 ? 0 : lengths[0] + lengths[1];
  DeviceBatch one = all;
  const std::int32_t middle = lengths[first];
  const std::int32_t end = middle + lengths[first + 1];
  one.cu_seqlens_host = {0, middle, end};
  one.cu_seqlens = at::tensor(one.cu_seqlens_host, at::TensorOptions(at::kInt));
  for (at::Tensor* x : {&one.input_ids, &one.position_ids}) *x = x->narrow(0, tokens_before, end);
  one.loss_index = (one.loss_index.narrow(0, rows_before, num_rows) - tokens_before).to(at::kInt);
  GroupRows& groups = one.groups;
  for (at::Tensor* x : {&one.loss_labels, &one.loss_weight, &groups.reference}) {
    *x = x->narrow(0, rows_before, num_rows);
  }
  for (at::Tensor* x : {&groups.num_rows, &groups.roles, &groups.group_weights}) {
    *x = x->narrow(0, 2 * index, 2);
  }
  return one;
}

TEST(DecoderObjective, OfPackedPairsIsTheSumOfPairsAlone) {
  const std::vector<std::int32_t> lengths = {6, 4, 9, 5};
  const DeviceBatch batch = pair_batch(lengths, 61);
  ObjectiveSection section = section_of(ObjectiveKind::kDpo);
  section.next_token_weight = 0.5;
  const TestModel::Result packed = train(small_config(), section, batch).result;
  const TestModel::Result first = train(small_config(), section, alone(batch, lengths, 0)).result;
  const TestModel::Result second = train(small_config(), section, alone(batch, lengths, 1)).result;
  packtrain::expect_close(packed.loss, first.loss + second.loss, kTolerance, "loss");
  Grads sum = first.grads;
  for (auto& [name, grad] : sum) grad = grad + second.grads.at(name);
  expect_close(packed.grads, sum);
}

TEST(DecoderObjective, OfNoRowsHasZeroGradients) {
  DeviceBatch batch = pair_batch({6, 4, 9, 5}, 61);
  for (at::Tensor* x : {&batch.loss_index, &batch.loss_labels, &batch.loss_weight}) {
    *x = x->narrow(0, 0, 0);
  }
  batch.groups = {};
  DecoderOptions options;
  options.objective = make_objective(section_of(ObjectiveKind::kDpo));
  TestModel model(small_config(), options, kFloats);
  const TestModel::Result result = model.train(batch);
  EXPECT_EQ(result.loss.item<float>(), 0);
  for (const auto& [name, grad] : result.grads) {
    EXPECT_EQ(grad.abs().max().item<double>(), 0) << name;
  }
}

}  // namespace
}  // namespace packtrain::decoder_objective_test
