#include "training/setup/adapter_source.h"

#include <ATen/ops/empty.h>
#include <fmt/format.h>

#include <cmath>
#include <memory>
#include <vector>

#include "framework/core/error.h"
#include "models/adapters/lora_targets.h"
#include "models/adapters/lora_text.h"
#include "models/adapters/lora_values.h"
#include "training/checkpoint/checkpoint.h"
#include "training/checkpoint/peft_folder.h"

namespace packtrain {
namespace {

std::int64_t whole_rank(const NumberOfName& rank) {
  if (rank.number >= 1 && rank.number == std::floor(rank.number)) {
    return static_cast<std::int64_t>(rank.number);
  }
  throw Error(ErrorCategory::kConfig,
              fmt::format("adapter.rank_pattern: {} has rank {}, wanted an integer >= 1", rank.name,
                          rank.number),
              "Give a whole number.");
}

LoraOptions lora_options(const AdapterSection& section) {
  LoraOptions options;
  options.rank = section.rank;
  options.alpha = section.alpha;
  options.use_rslora = section.use_rslora;
  options.targets = section.targets;
  options.exclude = section.exclude;
  options.layers_to_transform = section.layers_to_transform;
  for (const NumberOfName& rank : section.rank_pattern) {
    options.rank_pattern.emplace_back(rank.name, whole_rank(rank));
  }
  for (const NumberOfName& alpha : section.alpha_pattern) {
    options.alpha_pattern.emplace_back(alpha.name, alpha.number);
  }
  options.dropout = section.dropout;
  if (section.init == LoraInit::kGaussian) {
    options.initialization = LoraInitialization::kGaussian;
  }
  options.save = section.save;
  return options;
}

void initialize_shard(const DecoderConfig& decoder, std::uint64_t seed, const ShardView& shard) {
  const ParameterSpec spec{shard.parameter, shard.shape};
  const bool in_place = shard.weight.scalar_type() == at::kFloat;
  const at::Tensor values =
      in_place ? shard.weight : at::empty({shard.numel}, shard.weight.options().dtype(at::kFloat));
  initialize_adapter(*decoder.adapter, spec, seed, shard.begin, values);
  if (!in_place) shard.weight.copy_(values);
}

}  // namespace

std::optional<AdapterSource> find_adapter(const AdapterSection& section,
                                          const DecoderConfig& base) {
  if (!section.is_used()) return std::nullopt;
  if (section.path.empty()) return AdapterSource{{}, {}, lora_options(section)};
  auto source = adapter_of_checkpoint(section.path);
  if (source) return source;
  if (is_peft_folder(section.path)) {
    return AdapterSource{AdapterSource::Kind::kPeft, section.path,
                         read_peft_options(section.path, base)};
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
                       parse_lora_options(state.adapter, folder)};
}

DecoderConfig with_adapter(DecoderConfig decoder, const LoraOptions& options) {
  decoder.adapter = std::make_shared<const AdapterTargets>(find_lora_targets(decoder, options));
  return decoder;
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
