#include "training/setup/merged_model.h"

#include <ATen/ops/empty.h>
#include <ATen/ops/mm.h>
#include <fmt/format.h>

#include <cstdint>
#include <map>
#include <span>
#include <utility>
#include <vector>

#include "framework/core/error.h"
#include "framework/device/tensor_type.h"
#include "models/adapters/adapter_weights.h"
#include "models/decoder/initialize.h"
#include "models/decoder/parameters.h"
#include "training/setup/base_digest.h"

namespace packtrain {
namespace {

ShardView whole_parameter(const std::string& name, const std::vector<std::int64_t>& shape) {
  ShardView shard{.parameter = name, .shape = shape, .weight = {}};
  shard.weight = at::empty(shape, at::kFloat).view({-1});
  shard.numel = shard.weight.numel();
  return shard;
}

// The model's parameter as it was when training began, float32.
ShardView first_parameter(const ModelSource& source, std::uint64_t seed,
                          const ParameterSpec& spec) {
  ShardView shard = whole_parameter(spec.name, spec.shape);
  if (source.kind == ModelSource::Kind::kRandom) {
    initialize(spec, seed, 0, shard.weight);
  } else {
    read_weights(source, std::span(&shard, 1));
  }
  return shard;
}

at::Tensor adapter_parameter(const ModelSource& source, const std::string& name,
                             const std::vector<std::int64_t>& shape, bool in_adapter) {
  ShardView shard = whole_parameter(name, shape);
  shard.in_adapter = in_adapter;
  read_adapter(*source.adapter, source.decoder, 0, std::span(&shard, 1));
  return shard.weight.view(shape);
}

void add_update(const ModelSource& source, const std::string& weight, const LoraModules& modules,
                const at::Tensor& value) {
  // An embedding's matrix is [inputs, outputs], those of linear layers [outputs, inputs].
  const at::Tensor matrix = weight == "embed.weight" ? value.t() : value;
  const at::Tensor a =
      adapter_parameter(source, lora_a_name(weight), {total_rank(modules), matrix.size(1)},
                        /*in_adapter=*/true);
  std::int64_t first = 0;
  for (const LoraModule& module : modules) {
    const at::Tensor b = adapter_parameter(source, lora_b_name(weight, module),
                                           {module.num_rows, module.rank}, /*in_adapter=*/true);
    matrix.narrow(0, module.begin, module.num_rows)
        .add_(at::mm(b, a.narrow(0, first, module.rank)), module.scale);
    first += module.rank;
  }
}

}  // namespace

ParameterSource merged_parameters(const ModelSource& source, std::uint64_t seed) {
  std::map<std::string, ParameterSpec> specs;
  for (ParameterSpec& spec : all_parameters(without_adapter(source.decoder))) {
    specs.emplace(spec.name, std::move(spec));
  }
  return [source, seed, specs](const std::string& name) {
    const ParameterSpec& spec = specs.at(name);
    const AdapterTargets& adapter = *source.decoder.adapter;
    if (adapter.trained.contains(name)) {
      return adapter_parameter(source, name, spec.shape, /*in_adapter=*/false);
    }
    at::Tensor value = first_parameter(source, seed, spec).weight.view(spec.shape);
    if (const LoraModules* modules = adapter.find(name)) {
      add_update(source, name, *modules, value);
    }
    return value;
  };
}

void check_base(const ModelSource& source, std::uint64_t seed, const std::string& digest,
                Precision compute) {
  BaseDigest found;
  for (const ParameterSpec& spec : all_parameters(without_adapter(source.decoder))) {
    ShardView shard = first_parameter(source, seed, spec);
    // Frozen weights were kept in the precision of the products.
    if (!source.decoder.adapter->trained.contains(spec.name)) {
      shard.weight = shard.weight.to(scalar_type(data_type(compute)));
    }
    found.add(shard);
  }
  if (found.text() == digest) return;
  throw Error(
      ErrorCategory::kCheckpoint,
      fmt::format("{}: these weights have digest {}, the adapter was trained over {}",
                  source.folder.empty() ? "model.config" : source.folder, found.text(), digest),
      "Give the folder that the run started from (model.path) as --base.");
}

}  // namespace packtrain
