// Where a run's adapters come from: their options and their first values.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "framework/config/config.h"
#include "models/adapters/lora_options.h"
#include "models/layers/decoder_config.h"
#include "parallel/sharding/shard_view.h"

namespace packtrain {

struct AdapterSource {
  enum class Kind { kInitial, kCheckpoint, kPeft };
  Kind kind = Kind::kInitial;
  std::string folder;                      // a checkpoint, or a PEFT folder
  std::vector<LoraOptions> adapters = {};  // one, or several that are trained together
};

// Nothing when the configuration has no adapter. Throws Error(kConfig) with the key. A PEFT folder
// must fit the model `base`, which has no adapter (read_peft_options).
std::optional<AdapterSource> find_adapter(const Config& config, const DecoderConfig& base);
// The adapters of a checkpoint; nothing when it holds a whole model.
std::optional<AdapterSource> adapter_of_checkpoint(const std::string& folder);

// The decoder with the adapters. Throws as find_lora_targets(). Throws Error(kConfig) also for
// several adapters of what only one may have: the embedding, the head, experts, or an auxiliary
// loss.
DecoderConfig with_adapters(DecoderConfig decoder, std::span<const LoraOptions> adapters);
// The decoder of several adapters with one of them. Throws Error(kConfig) when none has the name.
DecoderConfig only_adapter(DecoderConfig decoder, const std::string& name);

// Throws Error(kConfig) when the model under the decoder's adapter cannot be computed by leaving
// the adapter out. `what`: the option that asks for it.
void require_model_under_adapter(const DecoderConfig& decoder, const std::string& what);

// Those of `shards` that a checkpoint holds: all, or with an adapter what is trained.
std::vector<ShardView> saved_shards(std::vector<ShardView> shards, bool has_adapter);

// Fills the adapter's own parameters among `shards`; those of a checkpoint include modules that are
// trained whole.
void read_adapter(const AdapterSource& source, const DecoderConfig& decoder, std::uint64_t seed,
                  std::span<const ShardView> shards);

}  // namespace packtrain
