#include "tests/parallel/sharding/sharded_model_harness.h"

#include <ATen/ops/allclose.h>
#include <ATen/ops/cat.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/zeros.h>

#include <cmath>

#include "framework/core/random.h"
#include "framework/device/tensor_type.h"
#include "parallel/sharding/shard_groups.h"

namespace packtrain::test {
namespace {

constexpr int kRows = 6;

at::Tensor random_tensor(const std::string& name, std::vector<std::int64_t> shape, double scale) {
  at::Tensor tensor = at::empty(shape, at::kFloat);
  const CounterRandom random(7, name);
  for (std::int64_t i = 0; i < tensor.numel(); ++i) {
    tensor.data_ptr<float>()[i] = static_cast<float>(scale * random.normal(i));
  }
  return tensor;
}

}  // namespace

World* world = nullptr;

DeviceBatch toy_batch(int rank, int micro_batch, int hidden) {
  DeviceBatch batch;
  const std::string name = "batch" + std::to_string(rank) + "." + std::to_string(micro_batch);
  batch.loss_weight = random_tensor(name, {kRows * hidden}, 1.0);
  return batch;
}

Reference run_by_hand(const ToyOptions& model, int num_ranks, int num_micro_batches) {
  const auto blocks = make_toy_blocks(model);
  Reference result;
  std::map<std::string, at::Tensor> weights;
  for (const auto& block : blocks) {
    for (const ParameterSpec& spec : block->parameters()) {
      weights[spec.name] = random_tensor(spec.name, spec.shape, 0.5)
                               .to(scalar_type(spec.encoding.type))
                               .to(at::kFloat);
      if (spec.in_fp8) weights[spec.name] = rounded_to_fp8({weights[spec.name], {}});
      if (spec.trainable) result.gradients[spec.name] = at::zeros(spec.shape, at::kFloat);
    }
  }
  const auto parameters = [&](const Block& block) {
    std::vector<Parameter> list;
    for (const ParameterSpec& spec : block.parameters()) {
      list.push_back(
          {weights[spec.name], spec.trainable ? result.gradients[spec.name] : at::Tensor(), true});
    }
    return list;
  };
  for (int r = 0; r < num_ranks; ++r) {
    for (int m = 0; m < num_micro_batches; ++m) {
      DeviceBatch batch = toy_batch(r, m, model.hidden);
      const OperatorOptions options;
      const BlockContext context{batch, BlockMode::kTrain, options};
      at::Tensor x;
      std::vector<std::unique_ptr<Tape>> tapes;
      for (const auto& block : blocks) {
        BlockOutput output = block->forward(parameters(*block), context, x);
        x = output.value;
        tapes.push_back(std::move(output.tape));
      }
      result.loss += x.item<double>();
      x = at::Tensor();
      for (std::size_t b = blocks.size(); b-- > 0;) {
        x = blocks[b]->backward(parameters(*blocks[b]), context, std::move(tapes[b]), x);
      }
    }
  }
  return result;
}

Harness::Harness(const ToyOptions& toy, const ShardingOptions& options, std::int64_t delay_us,
                 int shard_size)
    : toy_(toy),
      relative_(options.reduce == at::kFloat ? 1e-4 : 4e-2),
      absolute_(options.reduce == at::kFloat ? 1e-5 : 4e-2),
      device_(make_cpu_device({.stream_delay_us = delay_us, .delay_seed = 3, .num_threads = 1})) {
  const Connect connect = [] {
    return world->connect(world->size() > 1 ? Backend::kMpi : Backend::kLocal);
  };
  model_ = std::make_unique<ShardedModel>(
      make_toy_blocks(toy), *device_,
      connect_shard_groups(make_process_mesh(*world, shard_size), connect, connect), options);
  for (const ShardView& shard : model_->parameters().shards()) {
    const at::Tensor whole = random_tensor(shard.parameter, shard.shape, 0.5).view({-1});
    shard.weight.copy_(whole.narrow(0, shard.begin, shard.numel));
  }
  model_->parameters().weights_changed();
}

Outcome Harness::train(const Schedule& schedule, int num_micro_batches,
                       const Reference& reference) {
  std::vector<DeviceBatch> batches;
  for (int m = 0; m < num_micro_batches; ++m)
    batches.push_back(toy_batch(world->rank(), m, toy_.hidden));
  double loss = model_->run(schedule, batches).item<double>();
  bool right = true;
  for (const ShardView& shard : model_->parameters().shards()) {
    if (!shard.trainable) continue;
    const std::int64_t offset =
        shard.weight.storage_offset() - model_->parameters().state().master.storage_offset();
    const at::Tensor got = model_->gradient().narrow(0, offset, shard.numel).to(at::kFloat);
    const at::Tensor want =
        reference.gradients.at(shard.parameter).view({-1}).narrow(0, shard.begin, shard.numel);
    right = right && at::allclose(got, want, relative_, absolute_);
  }
  const double squares = model_->squared_norm_partials().sum().item<double>();
  const double norm = model_->gradient().to(at::kFloat).norm().item<double>();
  right = right && std::abs(squares - norm * norm) <= 1e-4 * squares;
  Outcome outcome{loss, right};
  double wrong = right ? 0 : 1;
  world->control().all_reduce(&outcome.loss, 1, DataType::kFloat64, ReduceOp::kSum, nullptr);
  world->control().all_reduce(&wrong, 1, DataType::kFloat64, ReduceOp::kMax, nullptr);
  outcome.gradients_right = wrong == 0;
  return outcome;
}

bool is_right(const Outcome& outcome, const Reference& reference) {
  return std::abs(outcome.loss - reference.loss) <= 1e-4 * std::abs(reference.loss) + 1e-5 &&
         outcome.gradients_right;
}

const std::vector<ToyOptions>& models() {
  static const std::vector<ToyOptions> list = {
      {.num_layers = 5},
      {.num_layers = 5, .hidden = 8, .tied = true},
      {.num_layers = 3, .hidden = 8, .tied = true, .first_bias = true},
      {.num_layers = 4, .hidden = 8, .tied = false, .frozen_layers = {0, 2}, .frozen_first = true},
      {.num_layers = 4,
       .frozen_layers = {0, 2},
       .layer_encoding = {DataType::kBFloat16},
       .bias = true},
      {.num_layers = 4,
       .hidden = 16,
       .frozen_layers = {1},
       .layer_encoding = {DataType::kBFloat16},
       .bias = true,
       .in_fp8 = true}};
  return list;
}

at::Tensor gaps_of(ShardedModel& model) {
  const at::Tensor gaps = model.gradient().clone();
  for (const ShardView& shard : model.parameters().shards()) {
    if (!shard.trainable) continue;
    const std::int64_t offset = shard.weight.storage_offset();
    gaps.narrow(0, offset, shard.numel).zero_();
  }
  return gaps;
}

}  // namespace packtrain::test
