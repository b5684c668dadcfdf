// Whole parameters of the model as they are when training begins, which one process reads alone.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <string>
#include <vector>

#include "models/block/block.h"
#include "parallel/sharding/shard_view.h"
#include "training/setup/model_source.h"

namespace packtrain {

// A shard that is the whole parameter, float32 on the CPU, without values.
ShardView whole_parameter(const std::string& name, const std::vector<std::int64_t>& shape);

// The parameter of the source's model, not of its adapter, on the CPU: encoded if `spec` is, else
// float32, before it is rounded. `seed`: of the run, for random weights. Throws as read_weights().
ShardView first_parameter(const ModelSource& source, std::uint64_t seed, const ParameterSpec& spec);

// The values that products read: float32 [spec.shape].
at::Tensor decoded_values(const ShardView& shard, const ParameterSpec& spec);

// The values before the parameter is encoded or rounded: float32 [spec.shape].
at::Tensor first_values(const ModelSource& source, std::uint64_t seed, const ParameterSpec& spec);

}  // namespace packtrain
