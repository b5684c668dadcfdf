#include "tests/models/estimates/layer_tables.h"

#include <string_view>
#include <utility>

#include "models/layers/norm.h"
#include "models/layers/recorded_experts.h"

namespace packtrain::tables {
namespace {

struct LayerValue {
  ValueKind kind;
  std::string_view name;
  std::int64_t num_rows;
  std::int64_t row_bytes;
  BackwardPhase last;               // backward reads it until then
  bool only_if_recomputed = false;  // only forward reads it
  bool recomputed_later = false;    // not needed to recompute what the MLP's backward reads first
};

// Lists the activations of a layer in execution order.
class LayerValues {
 public:
  LayerValues(const DecoderConfig& config, const LayerRows& rows, std::int64_t element_bytes)
      : config_(config),
        all_(rows.num_rows),
        behind_(rows.num_rows_after_attention),
        hidden_(config.hidden_size * element_bytes),
        has_experts_(config.layer(rows.layer).experts),
        element_bytes_(element_bytes),
        head_(config.head_dim * element_bytes) {}

  std::vector<LayerValue> list() {
    add(ValueKind::kInput, "input", all_, hidden_, kAttention);
    if (config_.norm_before) {
      add(ValueKind::kNormOutput, "attention_norm", all_, hidden_, kAttention);
      add_statistics("attention_norm.statistics", all_, kAttention);
    }
    add_attention();
    if (behind_ < all_) add_selected();
    add_branch_end("attention", kMlp);
    add_mlp();
    add_branch_end("mlp", kMlp);
    return std::move(values_);
  }

 private:
  static constexpr BackwardPhase kKept = BackwardPhase::kBetween;
  static constexpr BackwardPhase kMlp = BackwardPhase::kMlpBackward;
  static constexpr BackwardPhase kAttention = BackwardPhase::kAttentionBackward;
  static constexpr std::int64_t kNumber = 4;  // a float32

  void add(ValueKind kind, std::string_view name, std::int64_t num_rows, std::int64_t row_bytes,
           BackwardPhase last, bool only_if_recomputed = false) {
    values_.push_back({kind, name, num_rows, row_bytes, last, only_if_recomputed});
  }
  void add_statistics(std::string_view name, std::int64_t num_rows, BackwardPhase last) {
    add(ValueKind::kStatistics, name, num_rows, num_statistics(config_.norm) * kNumber, last);
  }

  void add_attention() {
    const std::int64_t heads = config_.num_heads;
    const std::int64_t num_all = heads + 2 * config_.num_kv_heads;
    const bool is_normed = config_.qk_norm != QkNormKind::kNone;
    if (is_normed) {
      add(ValueKind::kProjection, "attention.qkv", all_, num_all * head_, kAttention);
      add(ValueKind::kStatistics, "attention.norm_statistics", all_, num_qk_statistics() * kNumber,
          kAttention);
    } else if (config_.clip_qkv > 0) {
      add(ValueKind::kProjection, "attention.clipped", all_, num_all * config_.head_dim,
          kAttention);
    }
    add(is_normed ? ValueKind::kNormOutput : ValueKind::kProjection, "attention.rotated_qkv", all_,
        num_all * head_, kAttention);
    add(ValueKind::kAttentionOutput, "attention", all_, heads * head_, kAttention);
    add(ValueKind::kStatistics, "attention.statistics", all_, heads * kNumber, kAttention);
  }

  // Norm statistics of the queries and keys of a row.
  std::int64_t num_qk_statistics() const {
    const std::int64_t num_heads = config_.num_heads + config_.num_kv_heads;
    if (config_.qk_norm == QkNormKind::kFull) return 2;
    return config_.qk_norm == QkNormKind::kHeadLayer ? 2 * num_heads : num_heads;
  }

  void add_selected() {
    const bool shares_norm = config_.has_shared_norm();
    // If the MLP's branch has its own norm, that norm reads the input.
    const bool reads_input = config_.residual == ResidualKind::kParallelTwoNorms;
    add(ValueKind::kProjection, "attention.supervised", behind_, config_.num_heads * head_, kMlp);
    add(ValueKind::kProjection, "input.supervised", behind_, hidden_, kAttention, !reads_input);
    if (shares_norm) {
      add(ValueKind::kProjection, "attention_norm.supervised", behind_, hidden_, kMlp);
    }
  }

  // The output of a branch and the residual stream after it, where backward reads them.
  void add_branch_end(std::string_view branch, BackwardPhase last) {
    const bool is_attention = branch == "attention";
    const bool added_apart = config_.norm_after || config_.residual_multiplier != 1.0;
    if (config_.norm_after) {
      const char* const mlp_end = has_experts_ ? "mlp.experts.down" : "mlp.down";
      add(ValueKind::kProjection, is_attention ? "attention.output" : mlp_end, behind_, hidden_,
          last);
      add_statistics(is_attention ? "attention_post_norm.statistics" : "mlp_post_norm.statistics",
                     behind_, last);
    }
    // The MLP's branch reads it, unless both branches read the layer's input.
    if (is_attention && config_.residual == ResidualKind::kSequential) {
      add(ValueKind::kProjection, added_apart ? "attention.sum" : "attention.output", behind_,
          hidden_, last);
    }
  }

  void add_mlp() {
    if (config_.norm_before && !config_.has_shared_norm()) {
      add(ValueKind::kNormOutput, "mlp_norm", behind_, hidden_, kMlp);
      add_statistics("mlp_norm.statistics", behind_, kMlp);
    }
    if (has_experts_) {
      add_shared_expert();
      add_experts();
      return;
    }
    const bool gated = config_.activation.gated;
    const std::int64_t inner = config_.intermediate_size * element_bytes_;
    add(ValueKind::kProjection, gated ? "mlp.gate_up" : "mlp.up", behind_, (gated ? 2 : 1) * inner,
        kMlp);
    add(ValueKind::kActivationOutput, "mlp.activation", behind_, inner, kKept);
  }

  // Recorded before the experts, so its backward runs after theirs.
  void add_shared_expert() {
    const bool gated = config_.activation.gated;
    const std::int64_t inner = config_.experts.shared_intermediate_size * element_bytes_;
    if (inner == 0) return;
    add(ValueKind::kProjection, gated ? "mlp.shared.gate_up" : "mlp.shared.up", behind_,
        (gated ? 2 : 1) * inner, kMlp);
    values_.back().recomputed_later = true;
    add(ValueKind::kActivationOutput, "mlp.shared.activation", behind_, inner, kMlp);
    values_.back().recomputed_later = true;
    if (!config_.experts.shared_gate) return;
    add(ValueKind::kProjection, "mlp.shared.down", behind_, hidden_, kMlp);
    values_.back().recomputed_later = true;
    add(ValueKind::kStatistics, "mlp.shared.gate", behind_, kNumber, kMlp);
    values_.back().recomputed_later = true;
  }

  void add_experts() {
    const ExpertsConfig& experts = config_.experts;
    const std::int64_t chosen = experts.experts_per_token;
    const std::int64_t inner = experts.intermediate_size * element_bytes_;
    const auto number = [&](std::string_view name, std::int64_t count) {
      add(ValueKind::kStatistics, name, behind_, count * kNumber, kMlp);
    };
    number("mlp.router.weights", chosen);
    number("mlp.router.experts", chosen);
    if (routing_options(experts).reads_probabilities()) {
      number("mlp.router.probabilities", experts.num_experts);
    }
    number("mlp.order", chosen);
    add(ValueKind::kStatistics, "mlp.order.ends", 1, experts.num_experts * kNumber, kMlp);
    add(ValueKind::kProjection, "mlp.experts.gate_up", behind_,
        chosen * (config_.activation.gated ? 2 : 1) * inner, kMlp);
  }

  const DecoderConfig& config_;
  std::int64_t all_;
  std::int64_t behind_;
  std::int64_t hidden_;
  bool has_experts_;
  std::int64_t element_bytes_;
  std::int64_t head_;
  std::vector<LayerValue> values_;
};

std::vector<LayerValue> values_of(const DecoderConfig& config, const LayerRows& rows,
                                  std::int64_t element_bytes) {
  return LayerValues(config, rows, element_bytes).list();
}

}  // namespace

std::vector<SavedActivation> layer_activations_at(BackwardPhase moment, const DecoderConfig& config,
                                                  RecomputePolicy policy, const LayerRows& rows,
                                                  std::int64_t element_bytes) {
  // A recomputation of the MLP's projections, which backward needs first, recomputes all other
  // values before them.
  const bool all_recomputed =
      moment != BackwardPhase::kBetween && !policy.keeps(ValueKind::kProjection);
  std::vector<SavedActivation> there;
  for (const LayerValue& value : values_of(config, rows, element_bytes)) {
    const bool is_made = (all_recomputed && !value.recomputed_later) ||
                         (policy.keeps(value.kind) && !value.only_if_recomputed);
    if (!is_made || value.last < moment) continue;
    there.push_back({std::string(value.name), value.row_bytes * value.num_rows});
  }
  return there;
}

std::vector<SavedActivation> layer_saved_activations(const DecoderConfig& config,
                                                     RecomputePolicy policy, std::int64_t num_rows,
                                                     std::int64_t element_bytes) {
  std::vector<SavedActivation> most;
  for (std::int64_t layer = 0; layer < config.num_layers; ++layer) {
    std::vector<SavedActivation> values = layer_activations_at(
        BackwardPhase::kBetween, config, policy, {num_rows, num_rows, layer}, element_bytes);
    if (most.empty() || total_bytes(values) > total_bytes(most)) most = std::move(values);
  }
  return most;
}

}  // namespace packtrain::tables
