#include "models/saved_values.h"

#include <array>
#include <string_view>

namespace packtrain {

std::vector<SavedValue> layer_saved_values(const DecoderConfig& config, RecomputePolicy policy,
                                           std::int64_t num_rows, std::int64_t element_bytes) {
  struct Row {
    ValueKind kind;
    std::string_view name;
    std::int64_t bytes;
  };
  const std::int64_t hidden = config.hidden_size * element_bytes;
  const std::int64_t inner = config.intermediate_size * element_bytes;
  const std::int64_t head = config.head_dim * element_bytes;
  const std::int64_t number = 4;  // a float32
  const std::array rows = {
      Row{ValueKind::kInput, "input", hidden},
      Row{ValueKind::kNormalized, "attention_norm", hidden},
      Row{ValueKind::kStatistics, "attention_norm.inverse_rms", number},
      Row{ValueKind::kAttended, "attention", config.num_heads * head},
      Row{ValueKind::kProjection, "attention.rotated_qkv",
          (config.num_heads + 2 * config.num_kv_heads) * head},
      Row{ValueKind::kStatistics, "attention.statistics", config.num_heads * number},
      Row{ValueKind::kProjection, "attention.output", hidden},
      Row{ValueKind::kNormalized, "mlp_norm", hidden},
      Row{ValueKind::kStatistics, "mlp_norm.inverse_rms", number},
      Row{ValueKind::kProjection, "mlp.gate_up", 2 * inner},
      Row{ValueKind::kActivated, "mlp.activation", inner},
  };
  std::vector<SavedValue> saved;
  for (const Row& row : rows) {
    if (policy.keeps(row.kind)) saved.push_back({std::string(row.name), row.bytes * num_rows});
  }
  return saved;
}

}  // namespace packtrain
