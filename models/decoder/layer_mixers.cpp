// The mixers of a decoder layer: attention, a gated delta rule, a short convolution or Mamba-2.
#include <utility>
#include <vector>

#include "models/decoder/layer_operators.h"
#include "models/layers/layer_attention.h"
#include "models/layers/recorded_attention.h"
#include "models/layers/recorded_column_factors.h"
#include "models/layers/recorded_delta_net.h"
#include "models/layers/recorded_latent_heads.h"
#include "models/layers/recorded_mamba2.h"
#include "models/layers/recorded_operators.h"
#include "models/layers/recorded_short_conv.h"

namespace packtrain {
namespace {

// The factors of the parts of Mamba-2's projection, that of its input included.
std::vector<ColumnFactor> mamba2_factors(const DecoderConfig& config) {
  const Mamba2Config& mamba = config.mamba2;
  const std::int64_t shared = mamba.num_groups * mamba.state_dim;
  const std::int64_t widths[] = {mamba.width(), mamba.width(), shared, shared, mamba.num_heads};
  std::vector<ColumnFactor> factors;
  for (const double part : config.multipliers.mamba2_parts) {
    factors.push_back({widths[factors.size()], config.multipliers.mamba2_input * part});
  }
  return factors;
}

// The norm of turned heads. Turns keep it, so the norm may come first. A factor a of cosine and
// sine cancels: a x / sqrt(a^2 m + epsilon) = x / sqrt(m + epsilon / a^2) with m the mean square.
void norm_turned_heads(AttentionOptions& options) {
  options.norm = {
      .epsilon = options.norm.epsilon / (options.rotary.scaling * options.rotary.scaling),
      .weight_offset = 0};
  options.rotary.scaling = 1;
}

}  // namespace

Value LayerOperators::latent_norm(OperatorTape& tape, const std::string& name, Value x) const {
  return norm(tape, name, x, {.epsilon = config_.latent.norm_epsilon},
              needs_amax(config_.linear.products, config_.linear.recipe));
}

Value LayerOperators::merged_latent_heads(OperatorTape& tape, Value x) const {
  const LatentAttentionConfig& latent = config_.latent;
  const LatentHeadShape shape = latent_head_shape(config_);
  const std::int64_t query_width = shape.num_heads * shape.head_dim();
  Value query;
  if (latent.query_rank > 0) {
    const Value low = project(tape, "attention.query_a", x, latent.query_rank, config_.qkv_bias);
    query = project(tape, "attention.query_b", latent_norm(tape, "attention.query_a_norm", low),
                    query_width, false);
  } else {
    query = project(tape, "attention.query", x, query_width, false);
  }
  const Value low = project(tape, "attention.key_value_a", x,
                            latent.key_value_rank + shape.rotary_dim, config_.qkv_bias);
  const SplitColumns columns =
      split_columns(tape, "attention.compressed", low, latent.key_value_rank);
  const Value key_value = project(tape, "attention.key_value_b",
                                  latent_norm(tape, "attention.key_value_a_norm", columns.first),
                                  shape.num_heads * (shape.unturned_dim + shape.value_dim), false);
  return latent_heads(tape, "attention.heads", query, key_value, columns.rest, shape);
}

Value LayerOperators::merged_heads(OperatorTape& tape, Value x) const {
  if (config_.has_latent_attention()) return merged_latent_heads(tape, x);
  const std::int64_t num_gates = config_.attention_gate ? config_.num_heads : 0;
  const std::int64_t num_heads =
      num_gates + config_.num_heads + config_.num_projected_kv_heads(index_);
  return project(tape, "attention.qkv", x, num_heads * config_.head_dim_of(index_),
                 config_.qkv_bias);
}

Value LayerOperators::attend(OperatorTape& tape, Value x) const {
  const RotaryConfig rotary = config_.rotary_of(index_);
  AttentionOptions options;
  options.shape = layer_attention(config_, index_);
  options.sinks = config_.attention_sinks;
  options.standard_deviation = config_.initializer_range;
  options.rotary = {.num_rotated_heads = config_.num_heads + config_.num_kv_heads_of(index_),
                    .interleaved = config_.interleaved_rotary,
                    .scaling = rotary.scaling.attention_factor};
  options.rotates = rotary.rotates;
  options.frequencies = frequencies_;
  options.no_frequencies = no_frequencies_;
  options.temperature = query_temperature_of(config_, index_);
  options.clip_qkv = config_.clip_qkv;
  options.qk_norm = qk_norm_of(config_, index_);
  options.norm = {.epsilon = config_.norm.epsilon, .weight_offset = config_.norm.weight_offset};
  if (options.qk_norm == QkNormKind::kHeadUnit) norm_turned_heads(options);
  options.gated = config_.attention_gate;
  options.value_dim = config_.value_head_dim(index_);
  const LayerPattern pattern = config_.layer(index_);
  options.shared = {.value_norm = config_.value_norm && !pattern.reads_keys(),
                    .keys_as_values = pattern.keys_as_values && !pattern.reads_keys(),
                    .keeps_keys = pattern.keeps_keys,
                    .layer = index_,
                    .keys_of_layer = pattern.keys_of_layer};
  const Value y = self_attention(tape, "attention", merged_heads(tape, x), options);
  if (!config_.has_latent_attention() || options.value_dim == config_.head_dim) return y;
  return values_without_zeros(tape, "attention.values", y, latent_head_shape(config_));
}

Value LayerOperators::convolve(OperatorTape& tape, Value x) const {
  const ShortConvConfig& conv = config_.short_conv;
  const Value bcx = project(tape, "short_conv.bcx", x, 3 * config_.hidden_size, conv.bias);
  return short_conv(tape, "short_conv", bcx, {conv, config_.initializer_range});
}

Value LayerOperators::scan(OperatorTape& tape, Value x) const {
  const Mamba2Config& config = config_.mamba2;
  const Value projection =
      project(tape, "mamba2.zxbcdt", x, config.projection_width(), config.projection_bias);
  const Value scaled = multiply_columns(tape, "mamba2.scaled", projection, mamba2_factors(config_));
  return mamba2(tape, "mamba2", scaled, {config, config_.initializer_range});
}

Value LayerOperators::project_scanned(OperatorTape& tape, Value scanned,
                                      std::optional<BranchSum> sum) const {
  return project(tape, "mamba2.output", scanned, config_.hidden_size,
                 config_.mamba2.projection_bias, sum);
}

Value LayerOperators::project_mixed(OperatorTape& tape, Value mixed,
                                    std::optional<BranchSum> sum) const {
  const LayerPattern pattern = config_.layer(index_);
  const auto end = [&](const char* name, bool bias) {
    return project(tape, name, mixed, config_.hidden_size, bias, sum);
  };
  if (pattern.short_conv) return end("short_conv.output", config_.short_conv.bias);
  if (pattern.mamba2) return project_scanned(tape, mixed, sum);
  if (pattern.delta_net) return end("delta_net.output", false);
  return end("attention.output", config_.attention_output_bias);
}

Value LayerOperators::mix(OperatorTape& tape, Value x) const {
  if (config_.layer(index_).short_conv) return convolve(tape, x);
  if (config_.layer(index_).mamba2) return scan(tape, x);
  if (!config_.layer(index_).delta_net) return attend(tape, x);
  const DeltaNetConfig& net = config_.delta_net;
  const Value qkvz =
      project(tape, "delta_net.qkvz", x, net.conv_channels() + net.value_width(), false);
  const Value ba = project(tape, "delta_net.ba", x, 2 * net.num_value_heads, false);
  return delta_net(tape, "delta_net", qkvz, ba, {net, config_.initializer_range});
}

}  // namespace packtrain
