#include "training/verification/measure.h"

#include <ATen/core/grad_mode.h>
#include <ATen/ops/empty_like.h>
#include <ATen/ops/full.h>

#include "models/block/batch.h"
#include "parallel/communicators/local/local_world.h"
#include "training/steps/upload.h"
#include "training/verification/planted_reference.h"

namespace packtrain {
namespace {

DeviceBatch upload_with_row_losses(const PackedBatch& packed, const Device& device) {
  DeviceBatch batch = upload(packed, device);
  batch.row_losses = at::empty_like(batch.loss_weight);
  if (batch.groups.is_defined()) {
    batch.groups.kl = at::full({}, kPlantedDivergence, batch.loss_weight.options());
  }
  return batch;
}

// Reads values after the work of the current stream.
std::vector<float> on_host(const at::Tensor& values) {
  const at::Tensor copy = values.cpu().contiguous();
  const auto* data = copy.const_data_ptr<float>();
  return {data, data + copy.numel()};
}

std::vector<OwnedGradient> owned_gradients(ShardedModel& model) {
  const at::Tensor grad = model.gradient().to(at::kCPU, at::kFloat, /*non_blocking=*/false,
                                              /*copy=*/true);
  const auto specs = parameters_by_name(model.units());
  std::vector<OwnedGradient> gradients;
  for (const ShardView& shard : model.parameters().shards()) {
    if (!shard.trainable) continue;
    const ParameterSpec& spec = *specs.at(shard.parameter);
    gradients.push_back({shard.parameter, shard.begin,
                         grad.narrow(0, shard.state_begin, shard.numel), spec.row_numel(),
                         spec.parts});
  }
  return gradients;
}

// The single rank is its own shard group, for any shard size of the run.
Config one_in_a_group(Config config) {
  config.parallel.shard_size = 1;
  return config;
}

}  // namespace

Measured measure_step(ShardedModel& model, const Device& device,
                      std::span<const PackedBatch* const> batches) {
  std::vector<DeviceBatch> micro_batches;
  model.compute().run([&](StreamHandle) {
    for (const PackedBatch* batch : batches) {
      micro_batches.push_back(upload_with_row_losses(*batch, device));
    }
  });
  const at::Tensor loss = model.train(micro_batches);
  Measured measured;
  model.compute().run([&](StreamHandle) {
    const at::NoGradGuard no_grad;
    measured.loss = loss.item<double>();
    for (const DeviceBatch& batch : micro_batches) {
      measured.row_losses.push_back(on_host(batch.row_losses));
    }
    measured.gradients = owned_gradients(model);
  });
  return measured;
}

std::vector<float> measure_rows(ShardedModel& model, const Device& device,
                                const PackedBatch& batch) {
  std::vector<DeviceBatch> micro_batch;
  model.compute().run(
      [&](StreamHandle) { micro_batch.push_back(upload_with_row_losses(batch, device)); });
  model.evaluate(micro_batch);
  std::vector<float> losses;
  model.compute().run([&](StreamHandle) { losses = on_host(micro_batch.front().row_losses); });
  return losses;
}

SingleRankModel::SingleRankModel(const Config& config, const ModelSource& source,
                                 const RunDevice& device)
    : world_(make_local_world()),
      model_(make_sharded_model(one_in_a_group(config), source.decoder, device, *world_)) {
  require_trainable(*model_);
  load_weights(source, config.run.seed, *model_, world_->control());
}

}  // namespace packtrain
