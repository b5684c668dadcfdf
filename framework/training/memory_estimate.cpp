#include "framework/training/memory_estimate.h"

#include <algorithm>
#include <vector>

#include "framework/training/model_source.h"
#include "models/decoder.h"
#include "models/ops/linear_cross_entropy/linear_cross_entropy.h"
#include "models/saved_values.h"
#include "parallel/sharding/schedule.h"
#include "parallel/sharding/unit_table.h"

namespace packtrain {
namespace {

constexpr std::int64_t kFloatBytes = 4;

std::int64_t bytes_of(Precision precision) {
  return precision == Precision::kFloat32 ? kFloatBytes : 2;
}

std::int64_t gradient_bytes(const Config& config, int num_ranks, bool several_micro_batches) {
  return num_ranks > 1 || several_micro_batches ? kFloatBytes : bytes_of(config.precision.reduce);
}

std::int64_t state_bytes(const UnitTable& table, const Config& config, std::int64_t gradient) {
  const std::int64_t compute_bytes = bytes_of(config.precision.compute);
  std::int64_t trainable = 0;
  std::int64_t frozen = 0;
  for (const Unit& unit : table.units) {
    trainable += unit.trainable.shard_numel;
    frozen += unit.frozen.shard_numel;
  }
  const std::int64_t copy = compute_bytes == kFloatBytes ? 0 : compute_bytes;
  const std::int64_t moments = 2 * bytes_of(config.optimizer.moments);
  return trainable * (kFloatBytes + gradient + moments + copy) + frozen * compute_bytes;
}

std::int64_t sum(const std::vector<std::int64_t>& values) {
  std::int64_t total = 0;
  for (const std::int64_t value : values) total += value;
  return total;
}

std::int64_t slot_bytes(const UnitTable& table, const Config& config, int num_ranks) {
  if (num_ranks == 1) return 0;
  const SlotTable slots =
      make_slot_table(table, {config.parallel.zero_stage, config.parallel.gather_slots,
                              config.parallel.resident_embeddings, num_ranks});
  std::vector<std::int64_t> weights(static_cast<std::size_t>(slots.num_weight_slots), 0);
  std::vector<std::int64_t> gradients(static_cast<std::size_t>(slots.num_grad_slots), 0);
  std::int64_t largest_shard = 0;
  for (std::size_t u = 0; u < table.units.size(); ++u) {
    const Unit& unit = table.units[u];
    std::int64_t& slot = weights[static_cast<std::size_t>(slots.weight_slot_of_unit[u])];
    slot = std::max(slot, unit.numel());
    largest_shard = std::max(largest_shard, unit.trainable.shard_numel);
    if (unit.trainable.empty()) continue;
    const int own = slots.grad_slot_of_unit[u];
    const int first = own >= 0 ? own : slots.first_rotating_grad_slot();
    const int last = own >= 0 ? own : slots.num_grad_slots - 1;
    for (int g = first; g <= last; ++g) {
      std::int64_t& gradient = gradients[static_cast<std::size_t>(g)];
      gradient = std::max(gradient, unit.trainable.numel);
    }
  }
  const std::int64_t compute = bytes_of(config.precision.compute);
  const std::int64_t reduce = bytes_of(config.precision.reduce);
  return sum(weights) * compute + (sum(gradients) + largest_shard) * reduce;
}

std::int64_t head_working_bytes(const Config& config, const DecoderConfig& decoder,
                                std::int64_t num_rows) {
  const std::int64_t compute_bytes = bytes_of(config.precision.compute);
  const bool narrow_gradient = config.precision.reduce != Precision::kFloat32;
  const HeadChunks chunks = plan_head_chunks({.num_rows = num_rows,
                                              .vocab_size = decoder.vocab_size,
                                              .hidden_size = decoder.hidden_size,
                                              .element_bytes = compute_bytes,
                                              .narrow_gradient = narrow_gradient},
                                             /*on_gpu=*/true);
  return chunks.working_bytes + 3 * num_rows * decoder.hidden_size * compute_bytes;
}

std::int64_t layer_working_bytes(const DecoderConfig& decoder, std::int64_t num_rows,
                                 std::int64_t compute_bytes) {
  return num_rows * compute_bytes * (4 * decoder.intermediate_size + 4 * decoder.hidden_size);
}

std::int64_t total_bytes(const std::vector<SavedValue>& values) {
  std::int64_t total = 0;
  for (const SavedValue& value : values) total += value.bytes;
  return total;
}

}  // namespace

MemoryEstimate estimate_memory(const Config& config, const DecoderConfig& decoder, int num_ranks,
                               std::int64_t num_rows, bool several_micro_batches) {
  DecoderOptions options;
  options.frozen = config.model.frozen;
  options.decay_norms_and_biases = config.optimizer.decay_norms_and_biases;
  const auto blocks = make_decoder(decoder, options);  // shapes only
  const UnitTable table = make_unit_table(blocks, num_ranks);
  const std::int64_t compute = bytes_of(config.precision.compute);
  const std::int64_t input = num_rows * decoder.hidden_size * compute;
  const RecomputePolicy policy = recompute_policy(config.memory.recompute);
  const std::int64_t whole_layer =
      total_bytes(layer_saved_values(decoder, RecomputePolicy::none(), num_rows, compute));

  MemoryEstimate estimate;
  estimate.state =
      state_bytes(table, config, gradient_bytes(config, num_ranks, several_micro_batches));
  estimate.slots = slot_bytes(table, config, num_ranks);
  estimate.layer_values = layer_saved_values(decoder, policy, num_rows, compute);
  const std::int64_t layer = total_bytes(estimate.layer_values);
  // Beside what all layers keep: the head's input, and one layer whole in its own backward.
  estimate.activations = decoder.num_layers * layer + input + (whole_layer - layer);
  estimate.working = std::max(head_working_bytes(config, decoder, num_rows),
                              layer_working_bytes(decoder, num_rows, compute));
  return estimate;
}

}  // namespace packtrain
