#include "training/setup/initial_weights.h"

#include <ATen/ops/empty.h>

#include "framework/device/tensor_device.h"
#include "models/decoder/initialize.h"
#include "training/checkpoint/encode_shard.h"

namespace packtrain {
namespace {

// Makes the initial values of the tensors that the shard has parts of, and encodes them.
void initialize_encoded(const ParameterSpec& spec, std::uint64_t seed, const ShardView& shard) {
  encode_shard(shard, [&](std::int64_t begin, std::int64_t numel) {
    const at::Tensor values = at::empty({numel}, shard.weight.options().dtype(at::kFloat));
    initialize(spec, seed, begin, values);
    return values;
  });
}

}  // namespace

// The values depend on the device in the last bits, so the model's own makes them.
void initialize_weight(const ParameterSpec& spec, std::uint64_t seed, const ShardView& shard) {
  if (!shard.encoded_ranges.empty()) return initialize_encoded(spec, seed, shard);
  const bool in_place = shard.weight.scalar_type() == at::kFloat && !shard.weight_on_host;
  const at::Device device = shard.weight_on_host ? shard.device : shard.weight.device();
  const at::Tensor values =
      in_place ? shard.weight
               : at::empty({shard.numel}, at::TensorOptions(at::kFloat).device(device));
  initialize(spec, seed, shard.begin, values);
  if (!in_place) shard.weight.copy_(values);
}

void initialize_weights(std::uint64_t seed, ShardedModel& model) {
  const auto specs = parameters_by_name(model.units());
  for (const ShardView& shard : model.parameters().shards()) {
    if (!shard.in_adapter) initialize_weight(*specs.at(shard.parameter), seed, shard);
  }
  wait_for_current_stream(model.parameters().state().device);
}

}  // namespace packtrain
