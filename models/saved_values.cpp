#include "models/saved_values.h"

#include <string_view>

namespace packtrain {
namespace {

struct LayerValue {
  ValueKind kind;
  std::string_view name;
  std::int64_t num_rows;
  std::int64_t row_bytes;
  LayerMoment last;             // backward reads it until then
  bool only_if_remade = false;  // forward alone reads it
};

std::vector<LayerValue> values_of(const DecoderConfig& config, const LayerRows& rows,
                                  std::int64_t element_bytes) {
  const std::int64_t hidden = config.hidden_size * element_bytes;
  const std::int64_t inner = config.intermediate_size * element_bytes;
  const std::int64_t head = config.head_dim * element_bytes;
  const std::int64_t number = 4;  // a float32
  const std::int64_t all = rows.num_rows;
  const std::int64_t behind = rows.num_behind_attention;
  constexpr LayerMoment kKept = LayerMoment::kBetween;
  constexpr LayerMoment kMlp = LayerMoment::kMlpBackward;
  constexpr LayerMoment kAttention = LayerMoment::kAttentionBackward;
  std::vector<LayerValue> values = {
      {ValueKind::kInput, "input", all, hidden, kAttention},
      {ValueKind::kNormalized, "attention_norm", all, hidden, kAttention},
      {ValueKind::kStatistics, "attention_norm.inverse_rms", all, number, kAttention},
      {ValueKind::kAttended, "attention", all, config.num_heads * head, kAttention},
      {ValueKind::kProjection, "attention.rotated_qkv", all,
       (config.num_heads + 2 * config.num_kv_heads) * head, kAttention},
      {ValueKind::kStatistics, "attention.statistics", all, config.num_heads * number, kAttention},
      {ValueKind::kProjection, "attention.output", behind, hidden, kMlp},
      {ValueKind::kNormalized, "mlp_norm", behind, hidden, kMlp},
      {ValueKind::kStatistics, "mlp_norm.inverse_rms", behind, number, kMlp},
      {ValueKind::kProjection, "mlp.gate_up", behind, 2 * inner, kMlp},
      {ValueKind::kActivated, "mlp.activation", behind, inner, kKept},
  };
  if (behind < all) {
    values.push_back({ValueKind::kProjection, "input.supervised", behind, hidden, kAttention,
                      /*only_if_remade=*/true});
    values.push_back(
        {ValueKind::kProjection, "attention.supervised", behind, config.num_heads * head, kMlp});
  }
  return values;
}

}  // namespace

std::vector<SavedValue> layer_values_at(LayerMoment moment, const DecoderConfig& config,
                                        RecomputePolicy policy, const LayerRows& rows,
                                        std::int64_t element_bytes) {
  // The way to the MLP's projections, which its backward asks for first, leads through all others.
  const bool all_remade = moment != LayerMoment::kBetween && !policy.keeps(ValueKind::kProjection);
  std::vector<SavedValue> there;
  for (const LayerValue& value : values_of(config, rows, element_bytes)) {
    const bool is_made = all_remade || (policy.keeps(value.kind) && !value.only_if_remade);
    if (!is_made || value.last < moment) continue;
    there.push_back({std::string(value.name), value.row_bytes * value.num_rows});
  }
  return there;
}

std::vector<SavedValue> layer_saved_values(const DecoderConfig& config, RecomputePolicy policy,
                                           std::int64_t num_rows, std::int64_t element_bytes) {
  return layer_values_at(LayerMoment::kBetween, config, policy, {num_rows, num_rows},
                         element_bytes);
}

std::int64_t total_bytes(const std::vector<SavedValue>& values) {
  std::int64_t total = 0;
  for (const SavedValue& value : values) total += value.bytes;
  return total;
}

}  // namespace packtrain
