// The first weights of a model: random, or from a folder.
#include <algorithm>
#include <functional>
#include <iterator>
#include <vector>

#include "framework/device/tensor_device.h"
#include "models/families/text_part.h"
#include "training/checkpoint/hugging_face.h"
#include "training/setup/adapter_from_base.h"
#include "training/setup/adapter_residual.h"
#include "training/setup/base_digest.h"
#include "training/setup/collective_read.h"
#include "training/setup/initial_weights.h"
#include "training/setup/model_source.h"

namespace packtrain {
namespace {

// The model as stored in the folder, before its vocabulary was resized and without its adapter.
DecoderConfig stored_decoder(const ModelSource& source) {
  DecoderConfig stored = without_adapter(source.decoder);
  stored.vocab_size = source.stored_vocab_size;
  stored.layer_input_vocab = source.stored_layer_input_vocab;
  return stored;
}

}  // namespace

void read_weights(const ModelSource& source, std::span<const ShardView> all) {
  std::vector<ShardView> shards;
  std::ranges::copy_if(all, std::back_inserter(shards), std::logical_not(), &ShardView::in_adapter);
  if (source.kind == ModelSource::Kind::kCheckpoint) {
    load_checkpoint(source.folder, shards, false);
    return;
  }
  import_weights(source.folder, stored_decoder(source), shards,
                 {.prefix = source.prefix, .is_part = has_text_part(source.config_json)});
}

std::string load_base(const ModelSource& source, std::uint64_t seed, ShardedModel& model,
                      Communicator& control) {
  if (source.kind == ModelSource::Kind::kRandom) {
    initialize_weights(seed, model);
  } else {
    const auto read = [&](std::span<const ShardView> shards) { read_weights(source, shards); };
    if (const auto failure = collective_read(model, control, read)) throw failure->error;
  }
  model.parameters().weights_changed();
  return source.adapter ? base_digest(model, control) : "";
}

LoadedWeights load_weights(const ModelSource& source, std::uint64_t seed, ShardedModel& model,
                           Communicator& control) {
  LoadedWeights loaded{load_base(source, seed, model, control)};
  if (!source.adapter) return loaded;
  const AdapterSource& adapter = *source.adapter;
  const auto read = [&](std::span<const ShardView> shards) {
    read_adapter(adapter, source.decoder, seed, shards);
    if (adapter.kind == AdapterSource::Kind::kCheckpoint) {
      loaded.initial_values = subtract_saved_values(adapter.folder, source, seed, model);
    }
  };
  if (adapter.kind == AdapterSource::Kind::kInitial) {
    read(model.parameters().shards());  // computed, so that no replica sends them
    wait_for_current_stream(model.parameters().state().device);
    loaded.initial_values = initialize_from_base(source, seed, model, control);
  } else if (const auto failure = collective_read(model, control, read)) {
    throw failure->error;
  }
  model.parameters().weights_changed();
  return loaded;
}

}  // namespace packtrain
