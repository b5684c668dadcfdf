#include "training/setup/first_parameter.h"

#include <ATen/ops/empty.h>
#include <ATen/ops/zeros.h>

#include <span>

#include "models/block/encoded_layout.h"
#include "models/ops/encoded_weight.h"
#include "training/setup/initial_weights.h"

namespace packtrain {

ShardView whole_parameter(const std::string& name, const std::vector<std::int64_t>& shape) {
  ShardView shard{.parameter = name, .shape = shape, .weight = {}};
  shard.weight = at::empty(shape, at::kFloat).view({-1});
  shard.numel = shard.weight.numel();
  return shard;
}

ShardView first_parameter(const ModelSource& source, std::uint64_t seed,
                          const ParameterSpec& spec) {
  ShardView shard = whole_parameter(spec.name, stored_shape(spec));
  if (!spec.encoding.is_plain()) {
    shard.format = spec.encoding.format;
    shard.weight = at::zeros({shard.numel}, at::kByte);  // as a run has unused bytes
    shard.encoded_ranges = encoded_ranges(spec);
    shard.decoded_shape = spec.shape;
  }
  if (source.kind == ModelSource::Kind::kRandom) {
    initialize_weight(spec, seed, shard);
  } else {
    read_weights(source, std::span(&shard, 1));
  }
  return shard;
}

at::Tensor decoded_values(const ShardView& shard, const ParameterSpec& spec) {
  if (shard.encoded_ranges.empty()) return shard.weight.view(spec.shape);
  at::Tensor values = at::empty(spec.shape, at::kFloat);
  decode({shard.weight, shard.encoded_ranges, shard.format}, values.view({-1}));
  return values;
}

at::Tensor first_values(const ModelSource& source, std::uint64_t seed, const ParameterSpec& spec) {
  ParameterSpec plain = spec;
  plain.encoding.format = ParameterEncoding::Format::kPlain;
  return first_parameter(source, seed, plain).weight.view(spec.shape);
}

}  // namespace packtrain
