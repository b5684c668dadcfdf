// Decoders whose head samples labels, against the same labels given.
#include <ATen/ops/arange.h>
#include <ATen/ops/argmax.h>
#include <ATen/ops/empty_like.h>
#include <ATen/ops/eq.h>
#include <ATen/ops/full_like.h>

#include <memory>
#include <string>

#include "models/ops/linear_cross_entropy/sample_labels.h"
#include "tests/models/batches.h"
#include "tests/models/cases.h"
#include "tests/models/variants.h"

namespace packtrain::sampled_labels_test {
namespace {

const at::TensorOptions kFloats(at::kFloat);

// All rows but each sequence's last have a label. Their seeds are numbers from `first_seed` on.
DeviceBatch batch_of(const DecoderConfig& config, std::int64_t first_seed) {
  DeviceBatch batch =
      random_batch({60, 40, 9}, static_cast<std::int32_t>(config.vocab_size), at::kCPU);
  const std::int64_t num_labels = batch.loss_labels.size(0);
  batch.sample_seeds =
      at::arange(first_seed, first_seed + num_labels, at::TensorOptions(at::kLong));
  return batch;
}

void expect_same_as_given(const DecoderConfig& config) {
  TestModel model(config, {}, kFloats);
  const DeviceBatch batch = batch_of(config, 7);
  DeviceBatch given = batch;
  given.sample_seeds = at::Tensor();
  // These have the soft cap already.
  const at::Tensor logits = model.logits(given).index_select(0, batch.loss_index);
  given.loss_labels = sample_labels(logits, batch.sample_seeds, {});
  EXPECT_FALSE(given.loss_labels.equal(batch.loss_labels));
  const TestModel::Result wanted = model.train(given);
  DeviceBatch sampled = batch;
  sampled.loss_labels = at::full_like(batch.loss_labels, -1);  // are not read
  const TestModel::Result got = model.train(sampled);
  expect_close(got.loss, wanted.loss, 1e-6, "loss");
  for (const auto& [name, grad] : wanted.grads) expect_close(got.grads.at(name), grad, 1e-5, name);
}

TEST(SampledLabels, TrainEveryDecoderAsTheSameLabelsGiven) {
  for (const auto& [name, config] : decoder_variants()) {
    SCOPED_TRACE(name);
    expect_same_as_given(config);
  }
}

TEST(SampledLabels, AreThoseThatMayBeGreedy) {
  const DecoderConfig config = small_config();
  TestModel model(config, {}, kFloats);
  DeviceBatch batch = batch_of(config, 7);
  DeviceBatch given = batch;
  given.sample_seeds = at::Tensor();  // logits() has all rows, labels or not
  const at::Tensor logits = model.logits(given).index_select(0, batch.loss_index);
  const at::Tensor sampled = sample_labels(logits, batch.sample_seeds, {});
  const at::Tensor greedy = at::argmax(logits, 1);
  batch.loss_labels = greedy.to(at::kInt);  // are not read
  batch.row_greedy = at::empty_like(greedy, at::kBool);
  model.evaluate(batch);
  const at::Tensor wanted = at::eq(greedy, sampled);
  EXPECT_FALSE(wanted.all().item<bool>());
  EXPECT_TRUE(batch.row_greedy.equal(wanted));
}

TEST(SampledLabels, TrainSeveralChunksAndAnAdapterOfTheHead) {
  constexpr std::int32_t kLargeVocab = 40000;
  DecoderConfig config = small_config();
  config.vocab_size = kLargeVocab;
  config.logit_soft_cap = 20;
  config.logit_multiplier = 1.5;
  config.head_bias = true;
  expect_same_as_given(config);
  AdapterTargets adapter;
  adapter.weights["head.weight"] = {{"lm_head", 0, kLargeVocab, 4, 8.0}};
  config.adapter = std::make_shared<const AdapterTargets>(adapter);
  expect_same_as_given(config);
}

TEST(SampledLabels, AreOthersForOtherSeeds) {
  const DecoderConfig config = small_config();
  TestModel model(config, {}, kFloats);
  EXPECT_FALSE(
      model.train(batch_of(config, 7)).loss.equal(model.train(batch_of(config, 1000)).loss));
}

}  // namespace
}  // namespace packtrain::sampled_labels_test
