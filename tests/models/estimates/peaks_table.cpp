#include "tests/models/estimates/layer_tables.h"

#include <algorithm>
#include <set>

#include "models/layers/expert_layers.h"
#include "models/layers/layer_attention.h"
#include "models/ops/attention/attention_bytes.h"
#include "models/ops/experts/grouped_glu_gemm.h"
#include "models/ops/linear_cross_entropy/linear_cross_entropy.h"

namespace packtrain::tables {
namespace {

class Moments {
 public:
  Moments(const DecoderConfig& config, RecomputePolicy policy, const MicroBatchShape& size)
      : config_(config),
        policy_(policy),
        size_(size),
        element_bytes_(static_cast<std::int64_t>(c10::elementSize(size.compute))),
        num_supervised_(last_layer_needs_all_rows(config) ? size.num_rows
                                                          : size.num_supervised_rows) {}

  std::vector<MemoryPeak> list() const {
    std::vector<MemoryPeak> moments = {loss()};
    for (const std::int64_t layer : layers()) {
      const LayerRows rows = rows_of(layer);
      config_.layer(layer).experts ? add_experts_backward(rows, moments)
                                   : moments.push_back(mlp_backward(rows));
      moments.push_back(attention_backward(rows));
    }
    return moments;
  }

 private:
  // Candidates for the peak: the last layers with and without experts. If the last layer has
  // fewer rows, also the one of its kind before it. Of equal layers the last one needs most.
  std::set<std::int64_t> layers() const {
    std::set<std::int64_t> found;
    const std::int64_t last = config_.num_layers - 1;
    const bool selects = num_supervised_ < size_.num_rows;
    for (const bool experts : {false, true}) {
      std::int64_t layer = last;
      while (layer >= 0 && config_.layer(layer).experts != experts) --layer;
      if (layer >= 0) found.insert(layer);
      if (layer != last || !selects) continue;
      do --layer;
      while (layer >= 0 && config_.layer(layer).experts != experts);
      if (layer >= 0) found.insert(layer);
    }
    return found;
  }

  LayerRows rows_of(std::int64_t layer) const {
    const bool is_last = layer + 1 == config_.num_layers;
    return {size_.num_rows, is_last ? num_supervised_ : size_.num_rows, layer};
  }

  std::int64_t bytes(std::int64_t num_rows, std::int64_t width) const {
    return num_rows * width * element_bytes_;
  }

  std::int64_t values_at(BackwardPhase moment, const LayerRows& rows) const {
    return total_bytes(layer_activations_at(moment, config_, policy_, rows, element_bytes_));
  }

  // Activations in the backward of a layer: its own and those of the layers before.
  std::int64_t kept(BackwardPhase moment, const LayerRows& rows) const {
    std::int64_t total = values_at(moment, rows);
    for (std::int64_t layer = 0; layer < rows.layer; ++layer) {
      total += values_at(BackwardPhase::kBetween, rows_of(layer));
    }
    return total;
  }

  MemoryPeak loss() const {
    const HeadChunks chunks = plan_head_chunks({.num_rows = size_.num_supervised_rows,
                                                .vocab_size = config_.vocab_size,
                                                .hidden_size = config_.hidden_size,
                                                .element_bytes = element_bytes_,
                                                .narrow_gradient = size_.narrow_head_gradient},
                                               size_.on_gpu);
    const std::int64_t stream = bytes(size_.num_supervised_rows, config_.hidden_size);
    return {"loss",
            kept(BackwardPhase::kBetween, rows_of(config_.num_layers - 1)),
            {{"head: its input, norm and gradient", 3 * stream},
             {"logits", chunks.logits_bytes},
             {"head: its weight for a multiple of 8 words", chunks.weight_bytes},
             {"head: float32 sum of the weight's gradient", chunks.gradient_bytes}}};
  }

  MemoryPeak mlp_backward(const LayerRows& rows) const {
    const std::int64_t inner = bytes(rows.num_rows_after_attention, config_.intermediate_size);
    const std::int64_t stream = bytes(rows.num_rows_after_attention, config_.hidden_size);
    const std::int64_t again = policy_.keeps(ValueKind::kActivationOutput) ? 0 : inner;
    const std::int64_t num_projections = config_.activation.gated ? 2 : 1;
    return {"MLP backward",
            kept(BackwardPhase::kMlpBackward, rows),
            {{"gradient of the layer's output", added_apart() ? 2 * stream : stream},
             {"gradients of the MLP's activation and projections", (1 + num_projections) * inner},
             {"MLP's activation again", again}}};
  }

  bool added_apart() const { return config_.norm_after || config_.residual_multiplier != 1.0; }

  // Backward of the second projection, which recomputes the activation, and of the first one.
  void add_experts_backward(const LayerRows& rows, std::vector<MemoryPeak>& moments) const {
    const std::int64_t width = config_.experts.intermediate_size;
    const std::int64_t num_chosen =
        rows.num_rows_after_attention * config_.experts.experts_per_token;
    const std::int64_t inner = bytes(num_chosen, width);
    const std::int64_t projected = (config_.activation.gated ? 2 : 1) * inner;
    const std::int64_t copies = bytes(num_chosen, config_.hidden_size);
    const std::int64_t stream = bytes(rows.num_rows_after_attention, config_.hidden_size);
    const std::int64_t values = kept(BackwardPhase::kMlpBackward, rows);
    const bool keeps_gradient = grouped_glu_gemm_materializes_grad(
        size_.on_gpu, size_.compute, config_.activation, config_.hidden_size, width);
    const SavedActivation output{"gradient of the layer's output",
                                 (added_apart() ? 2 : 1) * stream};
    moments.push_back({"experts' second projection backward",
                       values,
                       {output,
                        {"gradient of the experts' outputs, by expert", copies},
                        {"gradient of the experts' activation", keeps_gradient ? inner : 0},
                        {"gradient of the experts' first projection", projected},
                        {"experts' activation again", inner}}});
    moments.push_back({"experts' first projection backward",
                       values - projected,
                       {output,
                        {"gradient of the experts' first projection", projected},
                        {"experts' inputs, by expert", copies},
                        {"gradient of the MLP's input", stream}}});
  }

  MemoryPeak attention_backward(const LayerRows& rows) const {
    AttentionBytes attention;
    for (const AttentionShape& shape : distinct_attentions(config_)) {
      const AttentionBytes needed =
          attention_backward_bytes(shape, {rows.num_rows, size_.num_sequences, size_.max_rows},
                                   size_.on_gpu ? at::kCUDA : at::kCPU, size_.compute);
      attention.gradients = std::max(attention.gradients, needed.gradients);
      attention.workspace = std::max(attention.workspace, needed.workspace);
    }
    const std::int64_t all_heads = config_.num_heads + 2 * config_.num_kv_heads;
    const bool made_again =
        config_.qk_norm != QkNormKind::kNone && !policy_.keeps(ValueKind::kNormOutput);
    const std::int64_t stream =
        bytes(rows.num_rows + rows.num_rows_after_attention, config_.hidden_size);
    return {"attention backward",
            kept(BackwardPhase::kAttentionBackward, rows),
            {{"gradients of the residual stream", stream},
             {"gradient of attention's output",
              bytes(rows.num_rows, config_.num_heads * config_.head_dim)},
             {"gradients of attention's heads", attention.gradients},
             {"normalised queries and keys again",
              made_again ? bytes(rows.num_rows, all_heads * config_.head_dim) : 0},
             {"attention's workspace", std::max(attention.workspace, qk_norm_workspace(rows))}}};
  }

  // Backward of the norms, after that of attention: heads in float32.
  std::int64_t qk_norm_workspace(const LayerRows& rows) const {
    const std::int64_t query = config_.num_heads * config_.head_dim;
    constexpr std::int64_t kFloats = 6;
    const bool wide = config_.qk_norm == QkNormKind::kHeadLayer;
    return wide ? kFloats * rows.num_rows * query * static_cast<std::int64_t>(sizeof(float)) : 0;
  }

  const DecoderConfig& config_;
  RecomputePolicy policy_;
  MicroBatchShape size_;
  std::int64_t element_bytes_;
  std::int64_t num_supervised_;  // rows of the last layer after attention
};

}  // namespace

std::vector<MemoryPeak> memory_peaks(const DecoderConfig& config, RecomputePolicy policy,
                                     const MicroBatchShape& size) {
  return Moments(config, policy, size).list();
}

}  // namespace packtrain::tables
