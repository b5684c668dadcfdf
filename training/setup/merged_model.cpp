#include "training/setup/merged_model.h"

#include <ATen/ops/linalg_vector_norm.h>
#include <ATen/ops/mm.h>
#include <fmt/format.h>

#include <cstdint>
#include <limits>
#include <map>
#include <span>
#include <utility>
#include <vector>

#include "framework/core/error.h"
#include "framework/device/tensor_type.h"
#include "models/adapters/adapter_weights.h"
#include "models/decoder/decoder.h"
#include "models/families/stacked_experts.h"
#include "training/setup/adapter_residual.h"
#include "training/setup/base_digest.h"
#include "training/setup/first_parameter.h"

namespace packtrain {
namespace {

using SpecsByName = std::map<std::string, ParameterSpec>;

// The model's parameters without the adapter's, encoded as in the run.
SpecsByName base_specs(const ModelSource& source, const Config& config) {
  SpecsByName specs;
  const DecoderOptions options = decoder_options(config, source.decoder);
  for (const auto& block : make_decoder(source.decoder, options)) {
    for (const ParameterSpec& spec : block->parameters()) {
      if (!spec.in_adapter) specs.emplace(spec.name, spec);
    }
  }
  return specs;
}

// The values over which the adapter was trained.
at::Tensor values_under_adapter(const ModelSource& source, std::uint64_t seed,
                                const ParameterSpec& spec) {
  const AdapterTargets& adapter = *source.decoder.adapter;
  const LoraModules* modules = adapter.find(spec.name);
  if (modules == nullptr || !is_pissa(adapter.initialization)) {
    return decoded_values(first_parameter(source, seed, spec), spec);
  }
  const InitialUpdate initial =
      read_initial_update(source.adapter->folder, spec.name, adapter, spec.shape.back());
  return residual_values(source, seed, spec, *modules, initial);
}

at::Tensor adapter_parameter(const ModelSource& source, const std::string& name,
                             const std::vector<std::int64_t>& shape, bool in_adapter) {
  ShardView shard = whole_parameter(name, shape);
  shard.in_adapter = in_adapter;
  read_adapter(*source.adapter, source.decoder, 0, std::span(&shard, 1));
  return shard.weight.view(shape);
}

// `value`: [experts, outputs, inputs].
void add_update_of_experts(const ModelSource& source, const std::string& weight,
                           const LoraModule& module, const at::Tensor& value) {
  const std::int64_t num_experts = value.size(0);
  const at::Tensor a =
      adapter_parameter(source, lora_a_name(weight), {num_experts, module.rank, value.size(2)},
                        /*in_adapter=*/true);
  const at::Tensor b = adapter_parameter(source, lora_b_name(weight, module),
                                         {num_experts, module.num_rows, module.rank},
                                         /*in_adapter=*/true);
  for (std::int64_t expert = 0; expert < num_experts; ++expert) {
    value.select(0, expert).add_(at::mm(b.select(0, expert), a.select(0, expert)), module.scale);
  }
}

// Gives the rows of W + scale B A the magnitudes of the module.
void set_magnitudes(const ModelSource& source, const std::string& name, const at::Tensor& rows) {
  const at::Tensor magnitudes =
      adapter_parameter(source, name, {rows.size(0)}, /*in_adapter=*/true);
  const at::Tensor norms = at::linalg_vector_norm(rows, 2, {1});
  rows.mul_(magnitudes.div(norms.clamp_min_(std::numeric_limits<float>::min())).unsqueeze(1));
}

void add_update(const ModelSource& source, const std::string& weight, const LoraModules& modules,
                const at::Tensor& value) {
  if (is_weight_of_experts(weight)) {
    return add_update_of_experts(source, weight, modules.front(), value);
  }
  const std::string& adapter = source.decoder.adapter->name;
  // An embedding's matrix is [inputs, outputs], those of linear layers [outputs, inputs].
  const at::Tensor matrix = weight == "embed.weight" ? value.t() : value;
  const at::Tensor a =
      adapter_parameter(source, lora_a_name(weight, adapter), {total_rank(modules), matrix.size(1)},
                        /*in_adapter=*/true);
  std::int64_t first = 0;
  for (const LoraModule& module : modules) {
    const at::Tensor b = adapter_parameter(source, lora_b_name(weight, module, adapter),
                                           {module.num_rows, module.rank}, /*in_adapter=*/true);
    const at::Tensor rows = matrix.narrow(0, module.begin, module.num_rows);
    rows.add_(at::mm(b, a.narrow(0, first, module.rank)), module.scale);
    if (source.decoder.adapter->use_dora) {
      set_magnitudes(source, magnitude_name(weight, module, adapter), rows);
    }
    first += module.rank;
  }
}

}  // namespace

ParameterSource merged_parameters(const ModelSource& source, std::uint64_t seed,
                                  const Config& config) {
  return [source, seed, specs = base_specs(source, config)](const std::string& name) {
    const ParameterSpec& spec = specs.at(name);
    const AdapterTargets& adapter = *source.decoder.adapter;
    if (adapter.trained.contains(name)) {
      return adapter_parameter(source, name, spec.shape, /*in_adapter=*/false);
    }
    const at::Tensor value = values_under_adapter(source, seed, spec);
    if (const LoraModules* modules = adapter.find(name)) {
      add_update(source, name, *modules, value);
    }
    return value;
  };
}

void check_base(const ModelSource& source, std::uint64_t seed, const std::string& digest,
                const Config& config) {
  BaseDigest found;
  for (const auto& [name, spec] : base_specs(source, config)) {
    ShardView shard = first_parameter(source, seed, spec);
    // Frozen weights were kept as products read them, or encoded.
    if (!source.decoder.adapter->trained.contains(name)) {
      shard.weight = shard.weight.to(scalar_type(spec.encoding.stored_type()));
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
