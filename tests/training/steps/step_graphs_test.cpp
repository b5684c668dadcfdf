// Batches padded to sizes that come again, and graphs made of such steps. On a GPU with
// PACKTRAIN_TEST_DEVICE=cuda; on the CPU the same steps run without graphs.
#include "training/steps/step_graphs.h"

#include <ATen/core/grad_mode.h>
#include <ATen/ops/zeros.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdlib>
#include <string>

#include "collators/flattening.h"
#include "framework/device/tensor_type.h"
#include "models/decoder/decoder.h"
#include "models/layers/routing_statistics.h"
#include "parallel/communicators/world.h"
#include "tests/samplers/memory_store.h"
#include "training/steps/upload.h"

namespace packtrain {
namespace {

bool on_gpu() {
  const char* device = std::getenv("PACKTRAIN_TEST_DEVICE");
  return device != nullptr && std::string(device) == "cuda";
}

DecoderConfig small_decoder() {
  DecoderConfig config;
  config.vocab_size = 500;
  config.hidden_size = 128;
  config.intermediate_size = 192;
  config.num_layers = 2;
  config.num_heads = 2;
  config.num_kv_heads = 1;
  config.head_dim = 64;
  config.tied_embeddings = true;
  return config;
}

Backend backend() {
  return on_gpu() ? Backend::kNccl : Backend::kLocal;
}

DataType compute() {
  return on_gpu() ? DataType::kBFloat16 : DataType::kFloat32;
}

struct Outcome {
  double loss = 0;
  at::Tensor gradient;
};

class StepGraphsTest : public ::testing::Test {
 protected:
  StepGraphsTest() {
    model_.compute().run([&](StreamHandle) {
      for (const ShardView& shard : model_.parameters().shards()) shard.weight.normal_(0, 0.2);
    });
    model_.parameters().weights_changed();
  }

  // Documents of these lengths, of each the last `supervised` share with labels.
  PackedBatch pack(const std::vector<std::int32_t>& lengths, double supervised, int first_id) {
    std::vector<test::MemoryExample> examples;
    MicroBatch pieces;
    int id = first_id;
    for (const std::int32_t length : lengths) {
      test::MemoryExample example;
      for (std::int32_t i = 0; i < length; ++i) {
        example.input_ids.push_back(id = (id * 17 + 31) % 500);
        example.loss_mask.push_back(i >= (1 - supervised) * length ? 1 : 0);
      }
      pieces.push_back({.example = std::ssize(examples), .length = length});
      examples.push_back(std::move(example));
    }
    const test::MemoryStore store(std::move(examples));
    return flatten(store, pieces, {.denominator = 300});
  }

  Outcome outcome(const at::Tensor& loss) {
    model_.compute().synchronize();
    // On the host: a copy by another stream would race with the next step.
    return {loss.item<double>(), model_.gradient().to(at::kCPU, at::kFloat, false, /*copy=*/true)};
  }

  Outcome train_plainly(const PackedBatch& batch) {
    DeviceBatch uploaded;
    model_.compute().run([&](StreamHandle) { uploaded = upload(batch, *device_); });
    return outcome(model_.train({&uploaded, 1}));
  }

  void expect_like_plain(StepGraphs& graphs, const PackedBatch& batch) {
    const Outcome plain = train_plainly(batch);
    model_.compute().run([&](StreamHandle) { model_.gradient().mul_(-3); });
    const StepGraphs::Trained trained = graphs.train(batch);
    // Kernels of a graph find none to keep from its capture.
    EXPECT_EQ(trained.batch.cu_seqlens_host.empty(), on_gpu());
    const Outcome padded = outcome(trained.loss);
    const double tolerance = on_gpu() ? 2e-2 : 1e-5;
    EXPECT_NEAR(padded.loss, plain.loss, tolerance * plain.loss);
    const double apart = padded.gradient.sub(plain.gradient).norm().item<double>();
    EXPECT_LT(apart, tolerance * plain.gradient.norm().item<double>());
  }

  const at::NoGradGuard no_grad_;
  std::unique_ptr<Device> device_ =
      on_gpu() ? make_cuda_device(0, {}) : make_cpu_device({.num_threads = 1});
  std::unique_ptr<World> world_ = join_world();
  ShardedModel model_{make_decoder(small_decoder(), {.encoding = {compute()}}),
                      *device_,
                      {world_->connect(backend()), world_->connect(backend())},
                      {.reduce = scalar_type(compute())}};
};

TEST_F(StepGraphsTest, OneGraphServesAllBoundariesAndLabelsOfItsSize) {
  for (const double supervised : {1.0, 0.5}) {
    StepGraphs graphs(model_, *device_);
    const std::vector<std::vector<std::int32_t>> packs = {
        {100, 200, 50}, {340}, {7, 300, 40, 3}, {2, 2, 2, 339}, {350}};
    int first_id = 1;
    BatchSize size;
    for (const auto& lengths : packs) {
      const PackedBatch batch = pack(lengths, supervised, first_id++);
      if (first_id == 2) size = padded_size(batch);
      EXPECT_EQ(padded_size(batch), size);
      expect_like_plain(graphs, batch);
    }
    EXPECT_EQ(graphs.num_graphs(), on_gpu() ? 1 : 0);
  }
}

TEST_F(StepGraphsTest, SizesHaveGraphsOfTheirOwn) {
  StepGraphs graphs(model_, *device_);
  for (int round = 0; round < 3; ++round) {
    for (const std::int32_t length : {90, 200, 600}) {
      expect_like_plain(graphs, pack({length, 30}, 1.0, round + 1));
    }
  }
  EXPECT_EQ(graphs.num_graphs(), on_gpu() ? 3 : 0);
}

TEST_F(StepGraphsTest, StepsOfSeveralMicroBatchesMayComeBetween) {
  StepGraphs graphs(model_, *device_);
  const PackedBatch batch = pack({100, 20}, 1.0, 1);
  expect_like_plain(graphs, batch);
  for (int round = 0; round < 4; ++round) {
    expect_like_plain(graphs, batch);
    std::vector<DeviceBatch> two(2);
    model_.compute().run([&](StreamHandle) { std::ranges::fill(two, upload(batch, *device_)); });
    model_.train(two);
    ASSERT_EQ(model_.gradient().scalar_type(), at::kFloat);
    const at::Tensor loss = graphs.train(batch).loss;
    EXPECT_EQ(model_.gradient().scalar_type(), scalar_type(compute()));
    const Outcome padded = outcome(loss);
    const Outcome plain = train_plainly(batch);
    EXPECT_LT(padded.gradient.sub(plain.gradient).norm().item<double>(),
              2e-2 * plain.gradient.norm().item<double>());
  }
}

TEST_F(StepGraphsTest, CountsTheTokensOfEachBatchForExpertsAndNoPads) {
  const ExpertsConfig config{.num_experts = 2, .experts_per_token = 1};
  const PackedBatch first = pack({100, 200, 50}, 1.0, 1);
  StaticBatch padded(padded_size(first), *device_);
  for (const std::int32_t length : {350, 340, 380, 370}) {
    const PackedBatch batch = pack({length}, 1.0, 2);
    ASSERT_EQ(padded_size(batch), padded_size(first));
    at::Tensor counts;
    model_.compute().run([&](StreamHandle) {
      padded.load(batch);
      DeviceBatch& loaded = padded.batch();
      Routing routing;
      routing.experts = at::zeros({loaded.num_rows(), 1}, loaded.input_ids.options());
      routing.weights = at::zeros({loaded.num_rows(), 1}, loaded.loss_weight.options());
      write_routing(loaded, routing, config, 0, 1, /*all_rows=*/true);
      counts = loaded.state.routing->counts.cpu();
    });
    model_.compute().synchronize();
    EXPECT_EQ(counts.sum().item<double>(), length);
  }
}

TEST_F(StepGraphsTest, ServeSingleMicroBatchesWithLabels) {
  std::vector<PackedBatch> batches;
  batches.push_back(pack({200}, 1.0, 1));
  EXPECT_TRUE(StepGraphs::serves(batches));
  batches.push_back(pack({200}, 1.0, 1));
  EXPECT_FALSE(StepGraphs::serves(batches)) << "two micro-batches";
  batches.clear();
  batches.push_back(pack({200}, 0.0, 1));
  EXPECT_FALSE(StepGraphs::serves(batches)) << "no label";
}

TEST(StepGraphs, AreWantedWhereLayersHaveLittleWork) {
  constexpr std::int64_t kMany = 200'000;
  DecoderConfig config = small_decoder();
  EXPECT_FALSE(should_use_graphs(CudaGraphs::kOff, config, 128));
  EXPECT_TRUE(should_use_graphs(CudaGraphs::kAuto, config, kMany));
  EXPECT_FALSE(should_use_graphs(CudaGraphs::kAuto, config, 10 * kMany));
  EXPECT_TRUE(should_use_graphs(CudaGraphs::kOn, config, 10 * kMany));
  config.intermediate_size *= 100;
  EXPECT_FALSE(should_use_graphs(CudaGraphs::kAuto, config, kMany));
}

// Products of experts elsewhere than on Hopper read sizes on the host.
TEST(StepGraphs, AreNotForExpertsWhoseProductsReadSizesOnTheHost) {
  DecoderConfig config = small_decoder();
  EXPECT_TRUE(graphs_support(config, /*has_grouped_kernels=*/false));
  config.layers = {{}, {.experts = true}};
  config.experts = {.num_experts = 4, .experts_per_token = 2, .intermediate_size = 64};
  EXPECT_FALSE(graphs_support(config, /*has_grouped_kernels=*/false));
  EXPECT_TRUE(graphs_support(config, /*has_grouped_kernels=*/true));
}

TEST(StepGraphs, AreNotForDeltaRulesWhoseSequencesTheHostDivides) {
  DecoderConfig config = small_decoder();
  config.layers = {{}, {.delta_net = true}};
  EXPECT_FALSE(graphs_support(config, /*has_grouped_kernels=*/true));
}

}  // namespace
}  // namespace packtrain
