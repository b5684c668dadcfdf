#include "models/step_moments.h"

#include <algorithm>

#include "models/ops/attention/attention_bytes.h"
#include "models/ops/linear_cross_entropy/linear_cross_entropy.h"

namespace packtrain {
namespace {

class Moments {
 public:
  Moments(const DecoderConfig& config, RecomputePolicy policy, const StepSize& size)
      : config_(config),
        policy_(policy),
        size_(size),
        element_bytes_(static_cast<std::int64_t>(c10::elementSize(size.compute))),
        all_{size.num_rows, size.num_rows},
        last_{size.num_rows, size.num_supervised_rows} {}

  std::vector<StepMoment> list() const {
    std::vector<StepMoment> moments = {loss(), mlp_backward(last_, 1),
                                       attention_backward(last_, 1)};
    if (last_.num_behind_attention < last_.num_rows && config_.num_layers > 1) {
      moments.push_back(mlp_backward(all_, 2));
      moments.push_back(attention_backward(all_, 2));
    }
    return moments;
  }

 private:
  std::int64_t bytes(std::int64_t num_rows, std::int64_t width) const {
    return num_rows * width * element_bytes_;
  }

  std::int64_t values_at(LayerMoment moment, const LayerRows& rows) const {
    return total_bytes(layer_values_at(moment, config_, policy_, rows, element_bytes_));
  }

  // In the backward of the layer that is `from_end` from the end, 1 being the last.
  std::int64_t kept(LayerMoment moment, const LayerRows& rows, std::int64_t from_end) const {
    const std::int64_t before = config_.num_layers - from_end;
    return before * values_at(LayerMoment::kBetween, all_) + values_at(moment, rows);
  }

  StepMoment loss() const {
    const HeadChunks chunks = plan_head_chunks({.num_rows = size_.num_supervised_rows,
                                                .vocab_size = config_.vocab_size,
                                                .hidden_size = config_.hidden_size,
                                                .element_bytes = element_bytes_,
                                                .narrow_gradient = size_.narrow_head_gradient},
                                               size_.on_gpu);
    const std::int64_t stream = bytes(size_.num_supervised_rows, config_.hidden_size);
    return {"loss",
            kept(LayerMoment::kBetween, last_, 1),
            {{"head: its input, norm and gradient", 3 * stream},
             {"logits", chunks.logits_bytes},
             {"head: float32 sum of the weight's gradient", chunks.gradient_bytes}}};
  }

  StepMoment mlp_backward(const LayerRows& rows, std::int64_t from_end) const {
    const std::int64_t inner = bytes(rows.num_behind_attention, config_.intermediate_size);
    const std::int64_t stream = bytes(rows.num_behind_attention, config_.hidden_size);
    const std::int64_t again = policy_.keeps(ValueKind::kActivated) ? 0 : inner;
    const std::int64_t num_projections = config_.activation.gated ? 2 : 1;
    const bool added_apart = config_.norm_after || config_.residual_multiplier != 1.0;
    return {"MLP backward",
            kept(LayerMoment::kMlpBackward, rows, from_end),
            {{"gradient of the layer's output", added_apart ? 2 * stream : stream},
             {"gradients of the MLP's activation and projections", (1 + num_projections) * inner},
             {"MLP's activation again", again}}};
  }

  StepMoment attention_backward(const LayerRows& rows, std::int64_t from_end) const {
    const AttentionShape shape{config_.num_heads, config_.num_kv_heads, config_.head_dim};
    const AttentionBytes attention =
        attention_backward_bytes(shape, {rows.num_rows, size_.num_sequences, size_.max_rows},
                                 size_.on_gpu ? at::kCUDA : at::kCPU, size_.compute);
    const std::int64_t stream =
        bytes(rows.num_rows + rows.num_behind_attention, config_.hidden_size);
    return {"attention backward",
            kept(LayerMoment::kAttentionBackward, rows, from_end),
            {{"gradients of the residual stream", stream},
             {"gradient of attention's output",
              bytes(rows.num_rows, config_.num_heads * config_.head_dim)},
             {"gradients of attention's heads", attention.gradients},
             {"attention's workspace", attention.workspace}}};
  }

  const DecoderConfig& config_;
  RecomputePolicy policy_;
  StepSize size_;
  std::int64_t element_bytes_;
  LayerRows all_;
  LayerRows last_;
};

}  // namespace

std::vector<StepMoment> step_moments(const DecoderConfig& config, RecomputePolicy policy,
                                     const StepSize& size) {
  return Moments(config, policy, size).list();
}

}  // namespace packtrain
