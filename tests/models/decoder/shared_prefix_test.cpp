// Segments with a prefix: a decoder computes what it computes for separate copies of the prefix.
#include <ATen/ops/tensor.h>

#include <algorithm>
#include <cstdint>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "framework/core/error.h"
#include "framework/core/file.h"
#include "models/families/family.h"
#include "tests/models/batches.h"
#include "tests/models/cases.h"
#include "tests/models/variants.h"

namespace packtrain::shared_prefix_test {
namespace {

using Ids = std::vector<std::int32_t>;

// Rows of a segment. Those from `first_supervised` on have the next row's id as label.
struct Part {
  Ids ids;
  std::int32_t first_supervised = 0;
  std::vector<RowRange> prefix = {};
};

DeviceBatch batch_of(const std::vector<Part>& parts) {
  Ids ids;
  Ids positions;
  Ids index;
  Ids labels;
  std::vector<float> weights;
  DeviceBatch batch;
  for (const Part& part : parts) {
    const auto begin = static_cast<std::int32_t>(ids.size());
    const auto length = static_cast<std::int32_t>(part.ids.size());
    batch.cu_seqlens_host.push_back(begin);
    const AttentionSegment segment{{begin, begin + length}, part.prefix};
    const auto num_prefix = static_cast<std::int32_t>(segment.num_prefix());
    if (!segment.is_sequence()) {
      batch.prefixes.push_back({std::ssize(batch.cu_seqlens_host) - 1, part.prefix});
    }
    for (std::int32_t i = 0; i < length; ++i) {
      ids.push_back(part.ids[static_cast<std::size_t>(i)]);
      positions.push_back(num_prefix + i);
      if (i < part.first_supervised || i + 1 == length) continue;
      index.push_back(begin + i);
      labels.push_back(part.ids[static_cast<std::size_t>(i) + 1]);
      weights.push_back(0.5F + static_cast<float>(num_prefix + i) / 64.0F);
    }
    batch.max_seqlen = std::max(batch.max_seqlen, num_prefix + length);
  }
  batch.cu_seqlens_host.push_back(static_cast<std::int32_t>(ids.size()));
  const at::TensorOptions ints(at::kInt);
  batch.input_ids = at::tensor(ids, ints);
  batch.position_ids = at::tensor(positions, ints);
  batch.cu_seqlens = at::tensor(batch.cu_seqlens_host, ints);
  batch.loss_index = at::tensor(index, ints);
  batch.loss_labels = at::tensor(labels, ints);
  batch.loss_weight = at::tensor(weights, at::TensorOptions(at::kFloat));
  return batch;
}

Ids joined(const std::vector<Ids>& parts) {
  Ids all;
  for (const Ids& part : parts) all.insert(all.end(), part.begin(), part.end());
  return all;
}

// Two answers to a prompt, a second turn after the first answer, and a document alone.
struct Branches {
  explicit Branches(std::int64_t vocab_size = 61)
      : ids(random_sequences({7, 5, 9, 4, 6}, static_cast<std::int32_t>(vocab_size))) {}

  Sequences ids;
  const Ids& prompt = ids.ids[0];
  const Ids& first = ids.ids[1];
  const Ids& second = ids.ids[2];
  const Ids& turn = ids.ids[3];
  const Ids& other = ids.ids[4];

  DeviceBatch shared() const {
    return batch_of({{prompt, 7},
                     {other},
                     {first, 0, {{0, 7}}},
                     {second, 0, {{0, 7}}},
                     {turn, 0, {{0, 7}, {13, 18}}}});
  }
  DeviceBatch copied() const {
    return batch_of({{other},
                     {joined({prompt, first}), 7},
                     {joined({prompt, second}), 7},
                     {joined({prompt, first, turn}), 12}});
  }
};

// Two groups as the collators lay them out: the first branch follows its prefix.
struct Pairs {
  explicit Pairs(std::int64_t vocab_size = 61)
      : ids(random_sequences({8, 5, 9, 3, 1, 12}, static_cast<std::int32_t>(vocab_size))) {}

  Sequences ids;

  DeviceBatch shared() const {
    const auto& part = ids.ids;
    return batch_of({{part[0], 8},
                     {part[1], 0, {{0, 8}}},
                     {part[2], 0, {{0, 8}}},
                     {part[3], 3},
                     {part[5], 0, {{22, 25}}},
                     {part[4], 0, {{22, 25}}}});
  }
  DeviceBatch copied() const {
    const auto& part = ids.ids;
    return batch_of({{joined({part[0], part[1]}), 8},
                     {joined({part[0], part[2]}), 8},
                     {joined({part[3], part[5]}), 3},
                     {joined({part[3], part[4]}), 3}});
  }
};

void expect_same(const DecoderConfig& config, DeviceBatch copied, DeviceBatch shared) {
  TestModel model(config, {}, at::TensorOptions(at::kFloat));
  const TestModel::Result want = model.train(copied);
  const TestModel::Result found = model.train(shared);
  constexpr double kTolerance = 2e-5;
  // A parameter of one number has a sum over all activations, most of which cancel.
  constexpr double kToleranceOfOneNumber = 1e-4;
  expect_close(found.loss, want.loss, kTolerance, "loss");
  for (const auto& [parameter, grad] : want.grads) {
    const double tolerance = grad.numel() == 1 ? kToleranceOfOneNumber : kTolerance;
    expect_close(found.grads.at(parameter), grad, tolerance, parameter);
  }
}

TEST(SharedPrefix, GivesTheLossAndGradientsOfCopies) {
  int num_variants = 0;
  for (auto& [name, config] : decoder_variants()) {
    if (config.rotary.scaling.depends_on_length() || config.has_other_mixers()) continue;
    config.experts.auxiliary_loss = 0;  // is of all rows, and there are fewer
    SCOPED_TRACE(name);
    ++num_variants;
    expect_same(config, Branches().copied(), Branches().shared());
    expect_same(config, Pairs().copied(), Pairs().shared());
  }
  EXPECT_GT(num_variants, 10);
}

// Windows and chunks are as short as the batches.
TEST(SharedPrefix, GivesTheLossAndGradientsOfCopiesInEveryFamily) {
  for (const Family& family : families()) {
    const std::string path =
        std::string(FAMILY_SAMPLES) + "/" + std::string(family.model_type) + ".json";
    for (const auto& sample : nlohmann::json::parse(read_text(path, ErrorCategory::kInternal))) {
      DecoderConfig config = parse_decoder_config(sample.dump());
      if (config.rotary.scaling.depends_on_length() || config.has_other_mixers()) continue;
      config.experts.auxiliary_loss = 0;
      for (LayerPattern& layer : config.layers) {
        if (layer.attention.window > 0) layer.attention.window = 5;
        if (layer.attention.chunk > 0) layer.attention.chunk = 5;
      }
      SCOPED_TRACE(sample.dump());
      expect_same(config, Pairs(config.vocab_size).copied(), Pairs(config.vocab_size).shared());
    }
  }
}

TEST(SharedPrefix, IsRefusedByRotaryPositionsThatDependOnTheLength) {
  DecoderConfig config = small_config();
  config.rotary.scaling.kind = RotaryScaling::Kind::kDynamic;
  config.rotary.scaling.factor = 2;
  config.rotary.scaling.original_max_positions = 8;
  TestModel model(config, {}, at::TensorOptions(at::kFloat));
  model.train(Branches().copied());
  EXPECT_THROW(model.train(Branches().shared()), Error);
}

TEST(SharedPrefix, IsRefusedByStatesThatStartWithAnExample) {
  DecoderConfig config = small_config();
  config.layers = {{}, {.delta_net = true}};
  config.delta_net = {
      .num_key_heads = 2, .num_value_heads = 2, .key_head_dim = 4, .value_head_dim = 4};
  TestModel model(config, {}, at::TensorOptions(at::kFloat));
  model.train(Branches().copied());
  EXPECT_THROW(model.train(Branches().shared()), Error);
}

}  // namespace
}  // namespace packtrain::shared_prefix_test
