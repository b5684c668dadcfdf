#include "framework/config/unknown_key.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <initializer_list>
#include <optional>
#include <utility>
#include <vector>

#include "framework/support/error.h"
#include "framework/support/nearest.h"

namespace packtrain {
namespace {

struct OtherName {
  const char* ours;
  std::initializer_list<const char*> others;
};

// Names that users of other trainers type. They are no aliases: a setting has one name.
const OtherName kOtherNames[] = {
    {"model.path",
     {"model_name_or_path", "pretrained_model_name_or_path", "base_model", "model_name", "model_id",
      "hf_path"}},
    {"model.frozen", {"freeze", "frozen_parameters", "freeze_modules", "freeze_trainable_layers"}},
    {"data.train",
     {"dataset", "datasets", "dataset_path", "dataset_name", "train_file", "train_files",
      "train_data", "data_path"}},
    {"data.validation",
     {"eval_dataset", "test_datasets", "validation_file", "valid_data", "val_data", "eval_file"}},
    {"data.max_length",
     {"sequence_len", "sequence_length", "seq_len", "seq_length", "max_seq_len", "max_seq_length",
      "max_sequence_length", "model_max_length", "cutoff_len", "block_size", "context_length"}},
    {"data.too_long", {"truncation", "excess_length_strategy"}},
    {"batch.strategy",
     {"packing", "sample_packing", "neat_packing", "pack_sequences", "packed", "padding_free",
      "packing_strategy", "multipack", "flash_attention_packing", "remove_padding"}},
    {"batch.order", {"group_by_length", "length_grouping", "shuffle", "sampler"}},
    {"batch.global_batch_size",
     {"train_batch_size", "batch_size", "gbs", "gradient_accumulation_steps", "grad_accum_steps",
      "accumulate_grad_batches", "grad_acc_steps"}},
    {"batch.micro_batch_size",
     {"per_device_train_batch_size", "per_device_batch_size", "device_batch_size", "mbs",
      "train_micro_batch_size_per_gpu"}},
    {"batch.max_tokens_per_micro_batch",
     {"max_tokens", "max_tokens_per_gpu", "max_batch_tokens", "max_batch_len", "max_batch_length"}},
    {"optimizer.name", {"optim", "optimizer_type", "optimizer_name"}},
    {"optimizer.learning_rate", {"lr", "peak_lr", "max_lr", "base_lr"}},
    {"optimizer.betas", {"adam_beta1", "adam_beta2", "beta1", "beta2", "adam_betas"}},
    {"optimizer.epsilon", {"adam_epsilon", "adam_eps", "eps"}},
    {"optimizer.weight_decay", {"wd"}},
    {"optimizer.max_grad_norm", {"gradient_clipping", "clip_grad", "grad_clip", "max_norm"}},
    {"schedule.name", {"lr_scheduler", "lr_scheduler_type", "lr_decay_style", "scheduler"}},
    {"schedule.warmup_steps", {"num_warmup_steps", "warmup", "lr_warmup_steps", "warmup_iters"}},
    {"schedule.warmup_ratio", {"lr_warmup_fraction", "lr_warmup_ratio"}},
    {"schedule.min_ratio", {"min_lr", "min_lr_ratio", "min_lr_rate", "cosine_min_lr_ratio"}},
    {"parallel.zero_stage",
     {"deepspeed", "zero_optimization", "fsdp", "fsdp_config", "sharding_strategy", "stage"}},
    {"parallel.backend", {"ddp_backend", "distributed_backend"}},
    {"precision.compute",
     {"bf16", "fp16", "fp32", "tf32", "dtype", "torch_dtype", "mixed_precision", "precision"}},
    {"precision.reduce", {"reduce_dtype", "mixed_precision_reduce", "communication_data_type"}},
    {"precision.deterministic", {"full_determinism", "use_deterministic_algorithms"}},
    {"checkpoint.save_steps", {"save_interval", "save_every", "save_freq", "checkpoint_interval"}},
    {"checkpoint.keep", {"save_total_limit", "keep_last_n", "keep_last_n_checkpoints"}},
    {"checkpoint.resume",
     {"resume_from_checkpoint", "auto_resume_from_checkpoints", "resume_from"}},
    {"checkpoint.weights_only", {"save_only_model", "save_weights_only"}},
    {"memory.recompute",
     {"gradient_checkpointing", "activation_checkpointing", "recompute_granularity"}},
    {"run.output", {"output_dir", "output_path", "out_dir", "save_dir", "save_folder"}},
    {"run.num_epochs", {"num_train_epochs", "epochs", "max_epochs", "train_epochs"}},
    {"run.max_steps",
     {"max_train_steps", "total_steps", "num_steps", "train_steps", "train_iters", "max_iters"}},
    {"run.seed", {"random_seed", "data_seed"}},
    {"run.evaluate_steps",
     {"eval_steps", "eval_interval", "eval_every", "eval_freq", "evals_per_epoch",
      "val_check_interval"}},
    {"run.evaluate_at_start",
     {"eval_on_start", "eval_at_begin", "eval_before_train", "evaluate_at_begin",
      "val_before_train", "run_eval_at_start"}},
    {"schedule.decay_steps", {"num_decay_steps", "lr_wsd_decay_iters", "wsd_decay_steps"}},
    {"schedule.decay_ratio", {"decay_fraction", "lr_decay_fraction", "cooldown_fraction"}},
    {"schedule.decay_shape", {"decay_type", "lr_wsd_decay_style", "cooldown_type"}},
    {"run.early_stopping_patience", {"early_stopping", "patience", "early_stop_patience"}},
    {"run.early_stopping_min_delta", {"early_stopping_threshold", "min_delta"}},
    {"checkpoint.best_by", {"metric_for_best_model"}},
    {"checkpoint.keep_best", {"load_best_model_at_end", "save_top_k"}},
};

struct OtherWay {
  std::initializer_list<const char*> names;
  const char* advice;
};

// Names of other trainers for what is done here in another way than by a key.
const OtherWay kOtherWays[] = {
    {{"save_strategy"},
     "checkpoint.save_steps says when: a number of steps (0: never), epoch, or a share of the run "
     "such as 0.1; checkpoint.save_final: at the end, too. The best stay with "
     "checkpoint.keep_best."},
    {{"eval_strategy", "evaluation_strategy", "do_eval"},
     "run.evaluate_steps says when: a number of steps (0: at the end alone), epoch, or a share of "
     "the run such as 0.1, where data.validation names a store."},
    {{"save_each_epoch", "save_every_epoch", "saves_per_epoch"},
     "checkpoint.save_steps: epoch saves after each epoch."},
    {{"report_to", "wandb", "use_wandb", "wandb_project", "tensorboard"},
     "`packtrain follow RUN` hands a run's metrics to TensorBoard or Weights & Biases."},
    {{"logging_steps", "log_interval", "log_every", "log_every_n_steps", "logging_strategy"},
     "Every step is written to metrics.jsonl in run.output; there is no interval to set."},
    {{"logging_dir"}, "Metrics, logs and checkpoints are all in run.output."},
    {{"val_set_size", "val_size", "validation_split", "test_size", "eval_split_ratio"},
     "`packtrain prepare --validation-fraction F` holds examples out; data.validation names their "
     "store."},
    {{"train_on_inputs", "train_on_prompt", "mask_prompt", "train_on_completions_only",
      "completion_only_loss", "assistant_only_loss"},
     "Which tokens are learned is part of a store: `packtrain prepare --train-on all` learns all."},
    {{"attn_implementation", "flash_attention", "flash_attn", "use_flash_attention_2",
      "sdp_attention", "xformers_attention"},
     "Attention is chosen by device and shape; packed examples never see each other."},
    {{"lora", "lora_r", "lora_rank", "lora_alpha", "lora_dropout", "lora_target_modules",
      "use_lora", "peft_config", "peft", "qlora", "adapter", "finetuning_type", "load_in_4bit",
      "load_in_8bit"},
     "There are no adapters here: all weights are trained but those that model.frozen names."},
    {{"tensor_parallel", "tensor_parallel_size", "tensor_model_parallel_size", "tp_size",
      "pipeline_parallel_size", "pipeline_model_parallel_size", "pp_size", "context_parallel_size",
      "sequence_parallel_size", "sequence_parallel_degree", "expert_parallel_size"},
     "Ranks share weights and examples alone (parallel.zero_stage); every rank computes whole "
     "layers and whole examples."},
    {{"neftune_noise_alpha", "neftune_alpha", "label_smoothing_factor", "label_smoothing"},
     "It is not offered here: leave the key out."},
    {{"save_safetensors"}, "`packtrain export RUN` writes a Hugging Face folder of safetensors."},
    {{"push_to_hub", "hub_model_id"},
     "`packtrain export RUN` writes a Hugging Face folder, which you can upload."},
};

struct PlannedKey {
  const char* name;
  const char* instead;
};

// Keys of the design that this version does not have.
const PlannedKey kPlannedKeys[] = {
    {"precision.master", "Master weights are always fp32."},
};

std::string section_of(const std::string& name) {
  return name.substr(0, name.find('.'));
}
std::string key_of(const std::string& name) {
  return name.substr(name.find('.') + 1);
}

std::optional<std::string> our_name(const std::string& typed) {
  for (const OtherName& row : kOtherNames) {
    const auto is_typed = [&typed](const char* other) { return typed == other; };
    if (std::any_of(row.others.begin(), row.others.end(), is_typed)) return row.ours;
  }
  return std::nullopt;
}

const char* other_way(const std::string& typed) {
  for (const OtherWay& way : kOtherWays) {
    const auto is_typed = [&typed](const char* name) { return typed == name; };
    if (std::any_of(way.names.begin(), way.names.end(), is_typed)) return way.advice;
  }
  return nullptr;
}

void add_once(std::vector<std::string>& names, const std::string& name) {
  if (std::find(names.begin(), names.end(), name) == names.end()) names.push_back(name);
}

// "optimizer.name or schedule.name": every key of ours that is called `key`.
std::string with_section(const std::string& key, std::span<const std::string> keys) {
  std::vector<std::string> found;
  for (const std::string& name : keys) {
    if (key_of(name) == key) found.push_back(name);
  }
  return fmt::format("{}", fmt::join(found, " or "));
}

std::string advise_other_name(const std::string& ours, const std::string& typed) {
  std::string advice = fmt::format("'{}' is called {} here.", typed, ours);
  if (ours == "batch.global_batch_size") {
    advice += " It counts examples an optimizer step over all ranks; accumulation is computed.";
  }
  return advice;
}

// Advice on `typed`, a key in the known section `section` or, with "", a name at the top level.
std::string advise(const std::string& typed, const std::string& section,
                   std::span<const std::string> keys) {
  if (const auto ours = our_name(typed)) return advise_other_name(*ours, typed);
  if (const char* way = other_way(typed)) return way;
  if (const std::string elsewhere = with_section(typed, keys); !elsewhere.empty()) {
    return fmt::format("Did you mean {}?", elsewhere);
  }
  std::vector<std::string> own;  // keys of this section, or the sections
  std::vector<std::string> all;
  for (const std::string& name : keys) {
    if (section.empty()) add_once(own, section_of(name));
    if (section_of(name) == section) add_once(own, key_of(name));
  }
  all = own;  // first, so that they win between equally near names
  for (const std::string& name : keys) add_once(all, key_of(name));
  const std::optional<std::string> nearest = nearest_name(typed, all);
  if (!nearest) {
    return fmt::format("{}: {}.", section.empty() ? "Sections" : "Keys of " + section,
                       fmt::join(own, ", "));
  }
  const bool is_own = std::find(own.begin(), own.end(), *nearest) != own.end();
  if (!is_own) return fmt::format("Did you mean {}?", with_section(*nearest, keys));
  return fmt::format("Did you mean {}{}?", section.empty() ? "" : section + ".", *nearest);
}

[[noreturn]] void fail(const std::string& where, const std::string& what, std::string advice) {
  throw Error(ErrorCategory::kConfig, where + ": " + what, std::move(advice));
}

}  // namespace

void reject_unknown(const Setting& setting, std::span<const std::string> keys) {
  for (const PlannedKey& planned : kPlannedKeys) {
    if (setting.name() == planned.name) {
      fail(setting.key_where, setting.name() + " is not in this version", planned.instead);
    }
  }
  const bool known_section = std::any_of(keys.begin(), keys.end(), [&](const std::string& name) {
    return section_of(name) == setting.section;
  });
  if (!known_section) {
    fail(setting.section_where, fmt::format("unknown section '{}'", setting.section),
         advise(setting.section, "", keys));
  }
  fail(setting.key_where, fmt::format("unknown key '{}'", setting.name()),
       advise(setting.key, setting.section, keys));
}

}  // namespace packtrain
