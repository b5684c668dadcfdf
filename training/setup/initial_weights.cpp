#include "training/setup/initial_weights.h"

#include <ATen/ops/empty.h>

#include "framework/device/tensor_device.h"
#include "models/decoder/initialize.h"
#include "models/ops/nf4/nf4.h"
#include "training/checkpoint/owned_groups.h"

namespace packtrain {
namespace {

// Makes the initial values of the tensors that the shard has parts of, and quantises them.
void initialize_encoded(const ParameterSpec& spec, std::uint64_t seed, const ShardView& shard) {
  for (const OwnedGroups& owned : owned_groups(shard)) {
    const auto read = [&](std::int64_t begin, std::int64_t numel) {
      const at::Tensor values = at::empty({numel}, shard.weight.options().dtype(at::kFloat));
      initialize(spec, seed, owned.range.begin + begin, values);
      return values;
    };
    nf4_quantize_tensor(owned.range.numel, owned.first_group, owned.groups, read);
  }
}

}  // namespace

void initialize_weight(const ParameterSpec& spec, std::uint64_t seed, const ShardView& shard) {
  if (!shard.encoded_ranges.empty()) return initialize_encoded(spec, seed, shard);
  const bool in_place = shard.weight.scalar_type() == at::kFloat;
  const at::Tensor values =
      in_place ? shard.weight : at::empty({shard.numel}, shard.weight.options().dtype(at::kFloat));
  initialize(spec, seed, shard.begin, values);
  if (!in_place) shard.weight.copy_(values);
}

void initialize_weights(std::uint64_t seed, ShardedModel& model) {
  const auto specs = parameters_by_name(model.units());
  for (const ShardView& shard : model.parameters().shards()) {
    if (!shard.in_adapter) initialize_weight(*specs.at(shard.parameter), seed, shard);
  }
  wait_for_current_stream(model.parameters().state().master.device());
}

}  // namespace packtrain
