// Graphs of steps of several adapters: one graph serves batches whose rows are divided differently.
// On the CPU the same steps run without graphs.
#include <ATen/core/grad_mode.h>
#include <gtest/gtest.h>

#include <cstdlib>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "collators/flattening.h"
#include "framework/device/tensor_type.h"
#include "models/decoder/decoder.h"
#include "models/layers/adapter_targets.h"
#include "parallel/communicators/world.h"
#include "tests/samplers/memory_store.h"
#include "training/steps/row_losses.h"
#include "training/steps/step_graphs.h"
#include "training/steps/upload.h"

namespace packtrain::adapter_graphs_test {
namespace {

constexpr std::int64_t kWidth = 128;

bool on_gpu() {
  const char* device = std::getenv("PACKTRAIN_TEST_DEVICE");
  return device != nullptr && std::string(device) == "cuda";
}

Backend backend() {
  return on_gpu() ? Backend::kNccl : Backend::kLocal;
}

DataType compute() {
  return on_gpu() ? DataType::kBFloat16 : DataType::kFloat32;
}

AdapterTargets targets(const std::string& name, std::int64_t rank) {
  AdapterTargets own;
  own.name = name;
  own.weights["layers.0.attention.qkv.weight"] = {{"q_proj", 0, kWidth, rank, 2.0}};
  own.weights["layers.1.attention.out.weight"] = {{"o_proj", 0, kWidth, 8, 0.5}};
  return own;
}

DecoderConfig decoder_of_two() {
  DecoderConfig config;
  config.vocab_size = 500;
  config.hidden_size = kWidth;
  config.intermediate_size = 192;
  config.num_layers = 2;
  config.num_heads = 2;
  config.num_kv_heads = 1;
  config.head_dim = 64;
  auto adapters = std::make_shared<AdapterTargets>();
  adapters->several = {targets("de", 8), targets("fr", 16)};
  config.adapter = std::move(adapters);
  return config;
}

// Two documents, one of each adapter.
PackedBatch pack(std::int32_t first, std::int32_t second) {
  std::vector<test::MemoryExample> examples;
  MicroBatch pieces;
  int id = first;
  for (const std::int32_t length : {first, second}) {
    test::MemoryExample example;
    for (std::int32_t i = 0; i < length; ++i) {
      example.input_ids.push_back(id = (id * 17 + 31) % 500);
      example.loss_mask.push_back(i > length / 3 ? 1 : 0);
    }
    pieces.push_back({.example = std::ssize(examples), .length = length});
    examples.push_back(std::move(example));
  }
  const test::MemoryStore store(std::move(examples));
  const LossNormalization normalization{
      Normalize::kTokens, 1, {{0, {.loss_token_weight = 100}}, {1, {.loss_token_weight = 300}}}};
  return flatten(store, pieces, normalization);
}

struct Trained {
  at::Tensor losses;  // of each adapter
  at::Tensor gradient;
};

class AdapterGraphs : public ::testing::Test {
 protected:
  AdapterGraphs() {
    model_.compute().run([&](StreamHandle) {
      for (const ShardView& shard : model_.parameters().shards()) shard.weight.normal_(0, 0.2);
    });
    model_.parameters().weights_changed();
  }

  Trained result(const DeviceBatch& batch) {
    Trained trained;
    model_.compute().run([&](StreamHandle) { trained.losses = sum_by_adapter({&batch, 1}, 2); });
    model_.compute().synchronize();
    trained.losses = trained.losses.cpu();
    // On the host: a copy by another stream would race with the next step.
    trained.gradient = model_.gradient().to(at::kCPU, at::kFloat, false, /*copy=*/true);
    return trained;
  }

  Trained train_plainly(const PackedBatch& packed) {
    DeviceBatch batch;
    model_.compute().run([&](StreamHandle) {
      batch = upload(packed, *device_);
      request_row_losses({&batch, 1});
    });
    model_.train({&batch, 1});
    return result(batch);
  }

  static double distance(const at::Tensor& a, const at::Tensor& b) {
    return a.sub(b).norm().item<double>() / b.norm().item<double>();
  }

  const at::NoGradGuard no_grad_;
  std::unique_ptr<Device> device_ =
      on_gpu() ? make_cuda_device(0, {}) : make_cpu_device({.num_threads = 1});
  std::unique_ptr<World> world_ = join_world();
  ShardedModel model_{make_decoder(decoder_of_two(), {.encoding = {compute()}}),
                      *device_,
                      {world_->connect(backend()), world_->connect(backend())},
                      {.reduce = scalar_type(compute())}};
};

TEST_F(AdapterGraphs, OneGraphServesAllDivisionsOfItsRows) {
  StepGraphs graphs(model_, *device_, /*row_losses=*/true);
  const double tolerance = on_gpu() ? 2e-2 : 1e-5;
  for (const std::int32_t first : {200, 200, 310, 1000, 1190, 640}) {
    const PackedBatch packed = pack(first, 1200 - first);
    const Trained plain = train_plainly(packed);
    model_.compute().run([&](StreamHandle) { model_.gradient().mul_(-3); });
    const Trained padded = result(graphs.train(packed).batch);
    EXPECT_LT(distance(padded.losses, plain.losses), tolerance) << first;
    EXPECT_LT(distance(padded.gradient, plain.gradient), tolerance) << first;
    EXPECT_GT(plain.losses.min().item<double>(), 0) << first;
  }
}

}  // namespace
}  // namespace packtrain::adapter_graphs_test
