#include "models/estimates/saved_activations.h"

#include <utility>

#include "models/estimates/layer_tapes.h"
#include "models/estimates/tape_values.h"

namespace packtrain {

std::vector<SavedActivation> saved_activations(const ShapeTape& tape,
                                               const RecomputePolicy& policy) {
  std::vector<SavedActivation> list;
  const TapeValues values(tape, policy);
  for (std::size_t id = 0; id < tape.num_values(); ++id) {
    const Value value{static_cast<int>(id)};
    const std::int64_t bytes = tape.shape(value).bytes();
    if (bytes > 0 && values.is_saved(value)) list.push_back({tape.name(value), bytes});
  }
  return list;
}

std::vector<SavedActivation> layer_saved_activations(const DecoderConfig& config,
                                                     const LayerPolicies& policies,
                                                     MicroBatchShape size) {
  size.num_supervised_rows = size.num_rows;
  const LayerTapes tapes(config, size);
  std::vector<SavedActivation> most;
  for (std::int64_t layer = 0; layer < tapes.num_layers(); ++layer) {
    std::vector<SavedActivation> values = saved_activations(tapes.layer(layer), policies.of(layer));
    if (most.empty() || total_bytes(values) > total_bytes(most)) most = std::move(values);
  }
  return most;
}

std::int64_t shared_row_bytes(const DecoderConfig& config, const MicroBatchShape& size) {
  std::int64_t width = config.layer_inputs_width();
  for (std::int64_t layer = 0; layer < config.num_layers; ++layer) {
    if (!config.layer(layer).keeps_keys) continue;
    width += 2 * config.num_kv_heads_of(layer) * config.head_dim_of(layer);
  }
  return ValueShape{size.num_rows, width, size.compute}.bytes();
}

std::int64_t total_bytes(const std::vector<SavedActivation>& values) {
  std::int64_t total = 0;
  for (const SavedActivation& value : values) total += value.bytes;
  return total;
}

}  // namespace packtrain
