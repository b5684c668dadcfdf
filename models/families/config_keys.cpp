#include "models/families/config_keys.h"

#include <algorithm>
#include <array>
#include <cctype>
#include <string_view>

#include "models/families/activation_config.h"
#include "models/families/layer_windows.h"
#include "models/families/rotary_config.h"

namespace packtrain {
namespace {

// Keys of PretrainedConfig of transformers 4 and 5, without those that are off by default (is_off)
// and those that end like a token id (below).
constexpr std::array kOfEveryConfig = {
    "architectures",
    "attn_implementation",
    "auto_map",
    "bad_words_ids",
    "begin_suppress_tokens",
    "chunk_size_feed_forward",
    "classifier_dropout",
    "ctc_loss_reduction",
    "diversity_penalty",
    "do_sample",
    "dtype",
    "early_stopping",
    "encoder_no_repeat_ngram_size",
    "encoder_repetition_penalty",
    "epsilon_cutoff",
    "eta_cutoff",
    "exponential_decay_length_penalty",
    "finetuning_task",
    "generation_config",
    "gradient_checkpointing",
    "id2label",
    "is_decoder",
    "is_encoder_decoder",
    "label2id",
    "length_penalty",
    "max_length",
    "max_new_tokens",
    "min_length",
    "min_new_tokens",
    "min_p",
    "model_type",
    "name_or_path",
    "no_repeat_ngram_size",
    "num_assistant_tokens",
    "num_beam_groups",
    "num_beams",
    "num_labels",
    "num_return_sequences",
    "output_attentions",
    "output_hidden_states",
    "output_logits",
    "output_scores",
    "penalty_alpha",
    "prefix",
    "problem_type",
    "remove_invalid_values",
    "renormalize_logits",
    "repetition_penalty",
    "return_dict",
    "return_dict_in_generate",
    "suppress_tokens",
    "task_specific_params",
    "temperature",
    "tf_legacy_loss",
    "tokenizer_class",
    "top_k",
    "top_p",
    "torch_dtype",
    "torchscript",
    "transformers_version",
    "typical_p",
    "use_bfloat16",
    "use_cache",
    "use_return_dict",
    "xla_device",
};

// Keys of other tools: how a model was computed or served, or how long texts were.
constexpr std::array kOfOtherTools = {
    "attention_softmax_in_fp32",
    "cache_implementation",
    "compression_config",  // the tensors say whether they are quantized
    "ctx_len",
    "flash_attention",
    "flash_attn",
    "fused_mlp",
    "merges_file",
    "model_max_length",
    "max_seq_len",
    "max_seq_length",
    "max_sequence_length",
    "n_ctx",
    "n_positions",
    "quantization_config",  // the same holds here
    "seq_len",
    "seq_length",
    "softmax_in_fp32",
    "tokenizer_file",
    "transformers.js_config",
    "unsloth_fixed",
    "use_flash_attention",
    "use_flash_attention_2",
    "use_flash_attn",
    "use_fused_mlp",
    "use_fused_qkv",
    "use_fused_rms_norm",
    "use_fused_rmsnorm",
    "use_fused_rope",
    "use_gradient_checkpointing",
    "use_sdpa",
    "vocab_file",
};

// Prefixes of the words in key names that refer to the model.
constexpr std::array kWords = {
    "act",          "adapter",    "alibi",   "alpha",    "attention", "attn",     "audio",
    "beta",         "bias",       "block",   "causal",   "clip",      "conv",     "cross",
    "decoder",      "deep",       "depth",   "dim",      "dropout",   "embd",     "embed",
    "encoder",      "eps",        "expert",  "factor",   "ffn",       "fraction", "gamma",
    "gat",          "glu",        "group",   "head",     "hidden",    "image",    "inner",
    "intermediate", "interleave", "kernel",  "kv",       "latent",    "layer",    "local",
    "logit",        "lora",       "loss",    "mask",     "memory",    "mixture",  "mlp",
    "moe",          "mtp",        "mult",    "multi",    "mup",       "nextn",    "norm",
    "parallel",     "partial",    "pool",    "position", "proj",      "q",        "qk",
    "qkv",          "quant",      "query",   "rank",     "recurrent", "relative", "residual",
    "rms",          "rope",       "rotary",  "router",   "scal",      "share",    "sink",
    "size",         "slid",       "softcap", "sparse",   "ssm",       "state",    "theta",
    "tie",          "topk",       "untie",   "use",      "value",     "video",    "vision",
    "vocab",        "width",      "window",  "yarn"};

bool is_in(const auto& names, const std::string& key) {
  return std::ranges::find(names, std::string_view(key)) != names.end();
}

// True where layer_types, whose texts name kinds of attention, can say all about the mixers.
bool has_only_attention(const DecoderConfig& config) {
  for (std::int64_t layer = 0; layer < config.num_layers; ++layer) {
    const LayerPattern& pattern = config.layer(layer);
    if (!pattern.has_attention() || pattern.has_other_mixer()) return false;
  }
  return true;
}

bool begins_with_word(std::string_view part) {
  return std::ranges::any_of(kWords, [&](std::string_view word) {
    return word.size() < 3 ? part == word : part.starts_with(word);
  });
}

}  // namespace

bool is_bookkeeping(const std::string& key) {
  if (key.starts_with('_') || key.starts_with("unsloth_") || key.starts_with("summary_")) {
    return true;
  }
  for (const char* end : {"_token", "_token_id", "_token_ids", "_token_index"}) {
    if (key.ends_with(end)) return true;
  }
  return is_in(kOfEveryConfig, key) || is_in(kOfOtherTools, key);
}

bool is_off(const nlohmann::json& value) {
  if (value.is_null() || value == false || value == 0) return true;
  if (value.is_string()) return value.get_ref<const std::string&>().empty();
  return value.is_structured() && value.empty();
}

bool may_change_model(const std::string& key) {
  std::string part;
  for (const char letter : key + "_") {
    if (std::isalnum(static_cast<unsigned char>(letter)) != 0) {
      part += static_cast<char>(std::tolower(static_cast<unsigned char>(letter)));
      continue;
    }
    if (begins_with_word(part)) return true;
    part.clear();
  }
  return false;
}

std::map<std::string, nlohmann::json> other_names(const DecoderConfig& config) {
  std::map<std::string, nlohmann::json> names;
  const auto add = [&](const nlohmann::json& value, std::initializer_list<const char*> keys) {
    for (const char* key : keys) names[key] = value;
  };
  add(config.hidden_size, {"d_model", "n_embd", "n_embed", "hidden_dim", "dim"});
  add(config.num_layers, {"n_layer", "n_layers", "num_layers"});
  add(config.num_heads, {"n_head", "n_heads", "num_heads"});
  add(config.num_kv_heads, {"n_kv_heads", "num_kv_heads", "num_key_value_heads", "num_query_groups",
                            "multi_query_group_num"});
  add(config.head_dim, {"head_dim", "head_size", "attention_head_dim", "kv_channels"});
  add(config.intermediate_size, {"n_inner", "ffn_hidden_size", "ffn_dim"});
  add(config.norm.epsilon, {"layer_norm_eps", "layer_norm_epsilon", "layernorm_epsilon", "norm_eps",
                            "norm_epsilon", "rms_norm_eps"});
  add(config.norm.kind == NormKind::kRms, {"rms_norm", "use_rms_norm", "use_rmsnorm"});
  add(config.qk_norm != QkNormKind::kNone,
      {"use_qk_norm", "qk_norm", "qk_layernorm", "use_qk_layernorm"});
  add(config.qkv_bias, {"qkv_bias", "add_qkv_bias", "use_qkv_bias", "attention_bias"});
  add(config.mlp_bias, {"mlp_bias", "use_mlp_bias"});
  add(config.qkv_bias && config.mlp_bias, {"bias", "use_bias", "add_linear_bias"});
  add(config.residual != ResidualKind::kSequential,
      {"parallel_attn", "parallel_residual", "use_parallel_residual"});
  add(config.resolved_rotary_dim(), {"rotary_dim"});
  add(partial_rotary_factor(config), {"rotary_pct", "partial_rotary_factor", "rotary_percent"});
  add(config.rotary.base, {"rope_base", "rotary_base", "rotary_emb_base"});
  add(activation_name(config.activation.kind),
      {"activation", "activation_function", "hidden_act", "hidden_activation"});
  add(config.tied_embeddings, {"tie_embeddings", "weight_tying", "share_embeddings"});
  add(config.experts.num_experts, {"num_experts", "num_local_experts", "n_routed_experts"});
  add(config.experts.experts_per_token, {"num_experts_per_tok", "experts_per_token", "moe_topk"});
  add(config.experts.normalize_weights, {"norm_topk_prob"});
  add(config.embedding_multiplier, {"embedding_multiplier", "scale_emb"});
  add(config.residual_multiplier, {"residual_multiplier"});
  add(1.0 / config.logit_multiplier, {"logits_scaling"});
  add(config.vocab_size, {"padded_vocab_size"});
  add(window_of(config) == 0 ? nlohmann::json(nullptr) : nlohmann::json(window_of(config)),
      {"sliding_window", "window_size"});
  if (has_only_attention(config)) add(write_layer_types(config), {"layer_types"});
  return names;
}

}  // namespace packtrain
