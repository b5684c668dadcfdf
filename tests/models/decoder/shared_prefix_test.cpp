// Segments with a prefix: a decoder computes what it computes for separate copies of the prefix.
#include <ATen/ops/tensor.h>

#include <algorithm>
#include <cstdint>
#include <vector>

#include "framework/core/error.h"
#include "models/ops/attention/backends.h"
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

bool depends_on_length(const RotaryScaling& scaling) {
  return scaling.kind == RotaryScaling::Kind::kDynamic ||
         scaling.kind == RotaryScaling::Kind::kLongRope;
}

Ids joined(const std::vector<Ids>& parts) {
  Ids all;
  for (const Ids& part : parts) all.insert(all.end(), part.begin(), part.end());
  return all;
}

// Two answers to a prompt, a second turn after the first answer, and a document alone.
struct Branches {
  Sequences ids = random_sequences({7, 5, 9, 4, 6}, 61);
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

TEST(SharedPrefix, GivesTheLossAndGradientsOfCopies) {
  const Branches branches;
  int num_variants = 0;
  for (const auto& [name, config] : attention_variants()) {
    if (depends_on_length(config.rotary.scaling)) continue;
    SCOPED_TRACE(name);
    ++num_variants;
    TestModel model(config, {}, at::TensorOptions(at::kFloat));
    const TestModel::Result copied = model.train(branches.copied());
    const TestModel::Result shared = model.train(branches.shared());
    constexpr double kTolerance = 2e-5;
    expect_close(shared.loss, copied.loss, kTolerance, "loss");
    for (const auto& [parameter, grad] : copied.grads) {
      expect_close(shared.grads.at(parameter), grad, kTolerance, parameter);
    }
  }
  EXPECT_GT(num_variants, 2);
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

TEST(SharedPrefix, IsServedByThePlainFormulaAlone) {
  const DeviceBatch shared = Branches().shared();
  const DeviceBatch copied = Branches().copied();
  AttentionShape shape{4, 2, 64};
  const auto choose = [&](const DeviceBatch& batch, at::DeviceType device) {
    return choose_attention_backend(shape, at::Device(device), at::kFloat, batch.segments());
  };
  EXPECT_EQ(choose(copied, at::kCPU), AttentionBackend::kReference);
  EXPECT_EQ(choose(shared, at::kCPU), AttentionBackend::kPlain);
  EXPECT_EQ(choose(copied, at::kCUDA), AttentionBackend::kReference);
  EXPECT_THROW(choose(shared, at::kCUDA), Error);
  shape.backend = AttentionBackend::kReference;
  EXPECT_THROW(choose(shared, at::kCPU), Error);
  shape.backend = AttentionBackend::kPlain;
  EXPECT_EQ(choose(shared, at::kCUDA), AttentionBackend::kPlain);
}

}  // namespace
}  // namespace packtrain::shared_prefix_test
