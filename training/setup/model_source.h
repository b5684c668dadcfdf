// Where a run's model comes from: its configuration and its first weights.
#pragma once

#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "framework/config/config.h"
#include "models/decoder/decoder.h"
#include "models/layers/decoder_config.h"
#include "models/ops/attention/attention.h"
#include "parallel/sharding/sharded_model.h"
#include "training/checkpoint/checkpoint.h"
#include "training/setup/adapter_source.h"
#include "training/setup/run_device.h"

namespace packtrain {

struct ModelSource {
  enum class Kind { kRandom, kHuggingFace, kCheckpoint };
  Kind kind = Kind::kRandom;
  std::string folder;       // Hugging Face folder or checkpoint
  std::string config_json;  // the model's config.json text
  DecoderConfig decoder;
  std::string prefix;  // model.prefix
  // Sizes of the folder's decoder; less than those of `decoder` when resized.
  std::int64_t stored_vocab_size = 0;
  std::int64_t stored_layer_input_vocab = 0;
  // The adapter that `decoder` has, over the model of the members above.
  std::optional<AdapterSource> adapter = {};
};

// Finds model.path (a Hugging Face folder, or a packtrain checkpoint) or model.config, and the
// adapter. Throws Error(kConfig) when the folder is neither, when model.resize_vocabulary does not
// fit the model, or when the adapter does not fit it.
ModelSource find_model(const Config& config);
// The model of a checkpoint of `config`'s run. Its adapter is trained over config.model.
ModelSource checkpoint_source(const std::string& folder, const Config& config);

// Throws Error(kData) when the store's ids do not fit the model's vocabulary.
void check_vocabulary(const std::string& store_folder, std::int64_t store_vocab_size,
                      const DecoderConfig& decoder);

// The options of the decoder that a run trains. Parts of parameters are set where the encoding of
// weights depends on them; they are slow to find.
DecoderOptions decoder_options(const Config& config, const DecoderConfig& decoder);

// True when this backend computes the attention of all layers.
bool all_attention_is(AttentionBackend backend, const DecoderConfig& decoder, Precision compute,
                      const Device& device);

// Builds the blocks and shards them. Collective. Weights are zero until load_weights().
// parallel.shard_size: the resolved value (plan/shard_size.h). `compute`: as in ShardingOptions.
std::unique_ptr<ShardedModel> make_sharded_model(const Config& config, const DecoderConfig& decoder,
                                                 const RunDevice& run_device, World& world,
                                                 Stream* compute = nullptr);

// Throws Error(kConfig) when model.frozen matches every parameter.
void require_trainable(ShardedModel& model);

// Fills the shards' weights from the source's folder, except for the adapter's.
void read_weights(const ModelSource& source, std::span<const ShardView> shards);

struct LoadedWeights {
  std::string base_digest;  // of an adapter's model before initial values are subtracted, else ""
  // This rank's parts of the initial values of an adapter of PiSSA. Checkpoints need them. Empty on
  // ranks that save none.
  std::vector<ShardView> initial_values = {};
};

// Loads the first weights: random from `seed`, or from the source's folder. One replica makes them
// for all. The result is the same at any number of ranks. Collective over `control`, which has all
// ranks of the model. An Error of one rank is thrown on every rank.
LoadedWeights load_weights(const ModelSource& source, std::uint64_t seed, ShardedModel& model,
                           Communicator& control);
// The same without the adapter's first values. Returns the digest. Weights under an adapter of
// PiSSA are those of the source.
std::string load_base(const ModelSource& source, std::uint64_t seed, ShardedModel& model,
                      Communicator& control);

}  // namespace packtrain
