#include "training/setup/adapter_source.h"

#include <ATen/ops/empty.h>
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <memory>
#include <utility>
#include <vector>

#include "framework/config/adapters.h"
#include "framework/core/error.h"
#include "models/adapters/lora_targets.h"
#include "models/adapters/lora_text.h"
#include "models/adapters/lora_values.h"
#include "models/families/stacked_experts.h"
#include "models/families/weight_map.h"
#include "training/checkpoint/checkpoint.h"
#include "training/checkpoint/peft_folder.h"
#include "training/setup/continued_adapter.h"
#include "training/setup/lora_section.h"

namespace packtrain {
namespace {

[[noreturn]] void fail(const std::string& message, const std::string& advice) {
  throw Error(ErrorCategory::kConfig, message, advice);
}

// A checkpoint to train further has one adapter, whose parameters have its name.
void check_continued(const AdapterSection& section, const AdapterSource& source) {
  if (source.adapters.size() > 1) {
    fail(fmt::format("adapter.path: {} holds several adapters", section.path),
         "Make a folder of one with `packtrain export --adapter NAME`, and give that.");
  }
  const std::string& saved = source.adapters.front().name;
  if (section.name.empty() || section.name == saved) return;
  fail(fmt::format("adapter.name is '{}', but the adapter of {} is named '{}'", section.name,
                   section.path, saved),
       "Leave adapter.name out.");
}

// The matrices whose rows are the rows of a batch.
void check_has_rows(const DecoderConfig& decoder, const AdapterTargets& targets) {
  const auto shapes = parameter_shapes(decoder);
  for (const auto& [weight, modules] : targets.weights) {
    if (weight.starts_with("layers.") && shapes.at(weight).size() == 2) continue;
    fail(fmt::format("{}: adapter.targets has {}, which only an adapter alone may change",
                     adapter_label(targets.name), modules.front().name),
         "Leave it out, or train this adapter in a run of its own.");
  }
}

// The parameters of experts do not have the adapter's name.
void check_name(const AdapterTargets& targets) {
  if (targets.name.empty()) return;
  for (const auto& [weight, modules] : targets.weights) {
    if (!is_weight_of_experts(weight)) continue;
    fail(fmt::format("adapter.name is '{}', but adapter.targets has the experts {}", targets.name,
                     modules.front().name),
         "Leave adapter.name out.");
  }
}

AdapterTargets targets_of_one(const DecoderConfig& decoder, const LoraOptions& options) {
  try {
    AdapterTargets targets = find_lora_targets(decoder, options);
    check_has_rows(decoder, targets);
    return targets;
  } catch (const Error& error) {
    const std::string label = adapter_label(options.name);
    if (error.category() != ErrorCategory::kConfig || error.message().starts_with(label)) throw;
    throw Error(ErrorCategory::kConfig, label + ": " + error.message(), error.advice());
  }
}

void initialize_shard(const DecoderConfig& decoder, std::uint64_t seed, const ShardView& shard) {
  const ParameterSpec spec{shard.parameter, shard.shape};
  const bool in_place = shard.weight.scalar_type() == at::kFloat && !shard.weight_on_host;
  const at::Device device = shard.weight_on_host ? shard.device : shard.weight.device();
  const at::Tensor values =
      in_place ? shard.weight
               : at::empty({shard.numel}, at::TensorOptions(at::kFloat).device(device));
  initialize_adapter(*decoder.adapter, spec, seed, shard.begin, values);
  if (!in_place) shard.weight.copy_(values);
}

}  // namespace

std::optional<AdapterSource> find_adapter(const Config& config, const DecoderConfig& base) {
  if (!trains_adapter(config)) return std::nullopt;
  const AdapterSection& section = config.adapter;
  if (section.path.empty()) {
    AdapterSource source;
    for (const Config& own : adapter_configs(config)) {
      source.adapters.push_back(lora_options(own.adapter));
    }
    return source;
  }
  auto source = adapter_of_checkpoint(section.path);
  if (source) {
    check_continued(section, *source);
    check_options_of_folder(config, source->adapters.front(), base);
    return source;
  }
  if (is_peft_folder(section.path)) {
    LoraOptions options = read_peft_options(section.path, base);
    check_options_of_folder(config, options, base);
    options.name = section.name;
    return AdapterSource{AdapterSource::Kind::kPeft, section.path, {std::move(options)}};
  }
  throw Error(
      ErrorCategory::kConfig,
      fmt::format("adapter.path: {} is neither a PEFT folder nor a checkpoint of an adapter",
                  section.path),
      "Give a folder with adapter_config.json, or step-N of a run that trained an adapter.");
}

std::optional<AdapterSource> adapter_of_checkpoint(const std::string& folder) {
  if (!is_checkpoint(folder)) return std::nullopt;
  const TrainingState state = read_checkpoint_state(folder);
  if (state.adapter.empty()) return std::nullopt;
  return AdapterSource{AdapterSource::Kind::kCheckpoint, folder,
                       parse_lora_list(state.adapter, folder)};
}

DecoderConfig with_adapters(DecoderConfig decoder, std::span<const LoraOptions> adapters) {
  if (adapters.size() == 1) {
    decoder.adapter =
        std::make_shared<const AdapterTargets>(find_lora_targets(decoder, adapters.front()));
    check_name(*decoder.adapter);
    return decoder;
  }
  if (decoder.experts.num_experts > 0 && decoder.experts.auxiliary_loss != 0) {
    fail("adapters: the model trains on an auxiliary loss of all rows of a batch",
         "Train one adapter alone, or set router_aux_loss_coef to 0 in the model's config.");
  }
  auto all = std::make_shared<AdapterTargets>();
  for (const LoraOptions& options : adapters) {
    all->several.push_back(targets_of_one(decoder, options));
  }
  decoder.adapter = std::move(all);
  return decoder;
}

DecoderConfig only_adapter(DecoderConfig decoder, const std::string& name) {
  const auto all = decoder.adapter;
  std::vector<std::string> names;
  for (const AdapterTargets& one : all->several) {
    names.push_back(one.name);
    if (one.name == name) decoder.adapter = {all, &one};
  }
  if (decoder.adapter != all) return decoder;
  fail(fmt::format("there is no adapter '{}'", name),
       fmt::format("The adapters are {}.", fmt::join(names, ", ")));
}

void require_model_under_adapter(const DecoderConfig& decoder, const std::string& what) {
  if (decoder.adapter == nullptr) {
    throw Error(ErrorCategory::kConfig,
                what + " asks for the model under the adapter, but there is no adapter",
                "Leave " + what + " out.");
  }
  if (!decoder.adapter->trained.empty()) {
    throw Error(ErrorCategory::kConfig,
                fmt::format("{} asks for the model under the adapter, but {} is trained whole with "
                            "the adapter, and its first values are not kept",
                            what, *decoder.adapter->trained.begin()),
                "Leave " + what + " out, or adapter.save.");
  }
  if (is_pissa(decoder.adapter->initialization)) {
    throw Error(ErrorCategory::kConfig,
                what +
                    " asks for the model under the adapter, but the initial values of PiSSA are "
                    "subtracted from its weights",
                "Leave " + what + " out, and evaluate the model's own folder: model.path=FOLDER.");
  }
}

std::vector<ShardView> saved_shards(std::vector<ShardView> shards, bool has_adapter) {
  if (has_adapter) std::erase_if(shards, [](const ShardView& shard) { return !shard.trainable; });
  return shards;
}

void read_adapter(const AdapterSource& source, const DecoderConfig& decoder, std::uint64_t seed,
                  std::span<const ShardView> shards) {
  std::vector<ShardView> wanted;
  for (const ShardView& shard : shards) {
    const bool is_saved = decoder.adapter->trained.contains(shard.parameter);
    if (source.kind == AdapterSource::Kind::kInitial) {
      if (shard.in_adapter) initialize_shard(decoder, seed, shard);
    } else if (shard.in_adapter || is_saved) {
      wanted.push_back(shard);
    }
  }
  if (wanted.empty()) return;
  if (source.kind == AdapterSource::Kind::kPeft) {
    read_peft_weights(source.folder, decoder, wanted);
  } else {
    load_checkpoint(source.folder, wanted, /*with_optimizer_state=*/false);
  }
}

}  // namespace packtrain
