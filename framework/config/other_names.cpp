#include "framework/config/other_names.h"

#include <algorithm>
#include <initializer_list>
#include <string_view>

namespace packtrain {
namespace {

// In the tables below, a name that ends in * matches all names with this beginning.
struct OtherName {
  const char* ours;
  std::initializer_list<const char*> others;
};

// Names of keys in other trainers. They are not aliases: a key has one name.
const OtherName kOtherNames[] = {
    {"model.path",
     {"model_name_or_path", "pretrained_model_name_or_path", "base_model", "model_name", "model_id",
      "hf_path", "restore_from_path", "load_path"}},
    {"model.frozen", {"freeze", "frozen_parameters", "freeze_modules", "freeze_trainable_layers"}},
    {"data.train",
     {"dataset", "datasets", "dataset_path", "dataset_name", "train_file", "train_files",
      "train_data", "data_path", "dataset_dir", "data_prefix"}},
    {"data.validation",
     {"eval_dataset", "test_datasets", "validation_file", "valid_data", "val_data", "eval_file"}},
    {"data.prepared_path", {"dataset_prepared_path"}},
    {"data.max_length",
     {"sequence_len", "sequence_length", "seq_len", "seq_length", "max_seq_len", "max_seq_length",
      "max_sequence_length", "model_max_length", "cutoff_len", "block_size", "context_length"}},
    {"data.too_long", {"truncation", "excess_length_strategy"}},
    {"batch.strategy",
     {"packing", "sample_packing", "neat_packing", "pack_sequences", "packed", "padding_free",
      "packing_strategy", "multipack", "flash_attention_packing", "remove_padding"}},
    {"batch.order",
     {"group_by_length", "length_grouping", "shuffle", "sampler", "shuffle_dataset",
      "shuffle_merged_datasets"}},
    {"batch.global_batch_size",
     {"train_batch_size", "batch_size", "gbs", "total_batch_size", "gradient_accumulation_steps",
      "grad_accum_steps", "accumulate_grad_batches", "grad_acc_steps"}},
    {"batch.micro_batch_size",
     {"per_device_train_batch_size", "per_device_batch_size", "device_batch_size", "mbs",
      "train_micro_batch_size_per_gpu"}},
    {"batch.max_tokens_per_micro_batch",
     {"max_tokens", "max_tokens_per_gpu", "max_batch_tokens", "max_batch_len", "max_batch_length"}},
    {"objective.kind",
     {"rl", "dpo", "ipo", "orpo", "simpo", "cpo", "kto", "loss_type", "pref_loss", "trl",
      "rl_algorithm", "preference_loss"}},
    {"objective.beta",
     {"pref_beta", "rl_beta", "dpo_beta", "kto_beta", "orpo_alpha", "kl_coef", "kl_loss_coef",
      "kl_beta", "kl_penalty"}},
    {"objective.label_smoothing", {"dpo_label_smoothing"}},
    {"objective.length_normalize", {"ld_length_norm", "dpo_norm"}},
    {"objective.target_margin", {"simpo_gamma", "gamma_beta_ratio"}},
    {"objective.next_token_weight",
     {"rpo_alpha", "cpo_alpha", "pref_ftx", "sft_loss_coef", "nll_loss_coef", "ptx_coef"}},
    {"objective.desirable_weight", {"kto_chosen_weight"}},
    {"objective.undesirable_weight", {"kto_rejected_weight"}},
    {"objective.reference_path",
     {"ref_model", "reference_model", "ref_model_path", "ref_adapter_name", "ref_path"}},
    {"objective.ratio", {"importance_sampling_level"}},
    {"objective.clip_low", {"clip_ratio_low", "eps_clip", "clip_ratio", "cliprange"}},
    {"objective.clip_high", {"epsilon_high", "clip_ratio_high", "eps_clip_high", "clip_ratio_c"}},
    {"adapter.rank", {"lora_r", "lora_rank", "peft_r"}},
    {"adapter.alpha", {"lora_alpha"}},
    {"adapter.dropout", {"lora_dropout"}},
    {"adapter.targets",
     {"lora_target", "lora_target_modules", "target_modules", "lora_target_linear",
      "target_parameters", "lora_target_parameters"}},
    {"adapter.exclude", {"exclude_modules"}},
    {"adapter.save", {"modules_to_save", "lora_modules_to_save", "additional_target"}},
    {"adapter.init", {"init_lora_weights", "peft_init_lora_weights", "pissa_init"}},
    {"adapter.use_rslora", {"peft_use_rslora", "lora_use_rslora"}},
    {"adapter.use_dora", {"dora", "peft_use_dora", "lora_use_dora"}},
    {"adapter.path", {"adapter_name_or_path", "lora_model_dir", "lora_path"}},
    {"optimizer.name", {"optim", "optimizer_type", "muon", "use_muon", "adafactor"}},
    {"optimizer.learning_rate", {"lr", "peak_lr", "max_lr", "base_lr", "peak_learning_rate"}},
    {"optimizer.betas", {"adam_beta1", "adam_beta2", "beta1", "beta2", "adam_betas"}},
    {"optimizer.epsilon", {"adam_epsilon", "adam_eps", "eps"}},
    {"optimizer.weight_decay", {"wd"}},
    {"optimizer.router_bias_update_rate", {"moe_router_bias_update_rate", "load_balance_coeff"}},
    {"optimizer.max_grad_norm",
     {"gradient_clipping", "clip_grad", "grad_clip", "max_norm", "gradient_clip_val", "clip_norm",
      "clip_grad_norm", "grad_clip_norm", "max_gradient_norm", "gradient_clip", "clip_gradients"}},
    {"schedule.name",
     {"lr_scheduler", "lr_scheduler_type", "lr_decay_style", "scheduler", "lr_schedule",
      "lr_scheduler_kwargs", "sched"}},
    {"schedule.warmup_steps", {"num_warmup_steps", "warmup", "lr_warmup_steps", "warmup_iters"}},
    {"schedule.warmup_ratio", {"lr_warmup_fraction", "lr_warmup_ratio"}},
    {"schedule.min_ratio", {"min_lr", "min_lr_ratio", "min_lr_rate", "cosine_min_lr_ratio"}},
    {"parallel.zero_stage",
     {"deepspeed", "zero_optimization", "fsdp", "fsdp_config", "fsdp2", "sharding_strategy",
      "stage", "use_distributed_optimizer", "distributed_fused_adam"}},
    {"parallel.shard_size",
     {"dp_shard_size", "data_parallel_shard_*", "shard_degree", "zero_hpz_partition_size"}},
    {"parallel.accumulate",
     {"sync_each_batch", "no_sync", "set_requires_gradient_sync", "requires_gradient_sync"}},
    {"parallel.backend", {"ddp_backend", "distributed_backend", "device", "use_cpu", "no_cuda"}},
    {"precision.compute",
     {"bf16", "fp16", "fp32", "tf32", "dtype", "torch_dtype", "mixed_precision", "precision",
      "pure_bf16", "half_precision_backend", "megatron_amp_O2", "bf16_full_eval", "amp"}},
    {"precision.master", {"master_dtype", "master_weights", "fp32_master_weights"}},
    {"precision.reduce", {"reduce_dtype", "communication_data_type", "grad_reduce_in_fp32"}},
    {"precision.deterministic", {"full_determinism", "use_deterministic_algorithms"}},
    {"checkpoint.save_steps", {"save_interval", "save_every", "save_freq", "checkpoint_interval"}},
    {"checkpoint.keep", {"save_total_limit", "keep_last_n", "keep_last_n_checkpoints"}},
    {"checkpoint.resume",
     {"resume_from_checkpoint", "auto_resume_from_checkpoints", "resume_from", "resume_if_exists",
      "auto_resume"}},
    {"checkpoint.weights_only", {"save_only_model", "save_weights_only"}},
    {"memory.recompute",
     {"gradient_checkpointing", "gradient_checkpointing_*", "activation_checkpointing",
      "activations_checkpoint_*", "recompute_granularity", "recompute_method",
      "enable_activation_checkpointing", "disable_gradient_checkpointing"}},
    {"memory.offload",
     {"activation_offloading", "enable_activation_offloading", "offload_optimizer"}},
    {"run.output",
     {"output_dir", "output_path", "out_dir", "save_dir", "save_folder", "run_dir", "log_dir"}},
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
    {"checkpoint.best_by", {"metric_for_best_model", "monitor"}},
    {"checkpoint.keep_best", {"load_best_model_at_end", "save_top_k"}},
    {"checkpoint.asynchronous", {"enable_async_checkpointing", "async_save", "async_checkpoint"}},
    {"model.dropout", {"hidden_dropout", "attention_dropout", "embd_pdrop", "resid_pdrop"}},
    {"model.resize_vocabulary", {"resize_vocab", "resize_token_embeddings"}},
    {"guard.step_timeout_s", {"ddp_timeout", "nccl_timeout", "timeout"}},
    {"run.trace_steps", {"profiler", "profile", "profile_steps", "use_profiler"}},
    {"data.mixture_until", {"mix_strategy", "stopping_strategy", "interleave_strategy"}},
};

struct OtherWay {
  std::initializer_list<const char*> names;
  const char* advice;
};

// Names in other trainers that no key replaces.
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
    {{"wandb", "use_wandb", "wandb_*", "tensorboard", "tensorboard_*", "mlflow_*", "use_mlflow",
      "swanlab_*", "use_swanlab", "comet_*", "use_comet", "trackio_*", "run_name", "metric_logger",
      "exp_manager", "exp_name", "plot_loss"},
     "metrics.report_to: [tensorboard, wandb, mlflow] sends a run's metrics there while it trains; "
     "`packtrain follow RUN` does so from outside or afterwards."},
    {{"logging_steps", "log_interval", "log_every", "log_every_n_steps", "logging_strategy",
      "logging_first_step", "logging_nan_inf_filter", "steps_per_print", "disable_tqdm",
      "wall_clock_breakdown", "log_peak_memory_stats", "include_num_input_tokens_seen",
      "include_tokens_per_second", "log_level"},
     "Every step is written to metrics.jsonl in run.output; there is no interval to set."},
    {{"logging_dir"}, "Metrics, logs and checkpoints are all in run.output."},
    {{"val_set_size", "val_size", "validation_split", "test_size", "eval_split_ratio"},
     "`packtrain prepare --validation-fraction F` holds examples out; data.validation names their "
     "store."},
    {{"train_on_inputs", "train_on_prompt", "mask_prompt", "train_on_completions_only",
      "completion_only_loss", "assistant_only_loss", "answer_only_loss", "mask_history",
      "response_template", "instruction_template"},
     "Which tokens are learned is part of a store: `packtrain prepare --train-on all` learns all."},
    {{"attn_implementation", "flash_attention", "flash_attn", "use_flash_attention_2",
      "sdp_attention", "xformers_attention", "s2_attention", "use_flash_attn",
      "use_flash_attention", "shift_attn", "eager_attention", "sdpa"},
     "Attention is chosen by device and shape; packed examples never see each other."},
    {{"lora", "lora_*", "use_lora", "peft", "peft_*", "use_peft", "finetuning_type"},
     "adapter.kind: lora trains an adapter; adapter.rank, adapter.alpha and adapter.targets "
     "describe it."},
    {{"load_in_8bit", "gptq", "torchao", "use_unsloth"},
     "Not supported: adapters are LoRA (adapter.kind)."},
    {{"tensor_parallel", "tensor_parallel_*", "tensor_model_parallel_*", "tp_*", "tp",
      "pipeline_parallel_*", "pipeline_model_parallel_*", "virtual_pipeline_*", "pp_*", "pp",
      "context_parallel_*", "cp_size", "sequence_parallel", "sequence_parallel_*",
      "expert_parallel_*", "expert_model_parallel_*", "ulysses_*", "parallelism_config"},
     "Not supported: ranks share weights and examples alone (parallel.zero_stage); every rank "
     "computes whole layers and whole examples."},
    {{"neftune_*", "noisy_embedding_alpha", "label_smoothing_factor", "ema", "ema_*", "swa",
      "swa_*", "z_loss", "mup", "use_mup", "mixup", "layerdrop", "lisa_*"},
     "Not supported: leave the key out. The loss is cross-entropy of the tokens that have a label; "
     "weights are not averaged."},
    {{"fp8", "fp8_*", "mxfp8", "nvfp4"}, "precision.linear: fp8_tensor (docs/precision.md)."},
    {{"grpo", "dapo", "gspo", "ppo", "num_generations", "reward_funcs", "reward_model",
      "reward_model_*", "vllm_*", "use_vllm", "max_completion_length"},
     "objective.kind: policy trains on rollouts of a file, with advantages or rewards; packtrain "
     "generates no answers and trains no reward model (docs/preferences.md)."},
    {{"precompute_ref_log_probs", "precompute_ref_batch_size"},
     "`packtrain score MODEL STORE --log-probs` writes them once; objective.reference: log_probs "
     "reads them."},
    {{"max_prompt_length"},
     "data.max_length is that of prompt and answer together; nothing is cut off a prompt."},
    {{"sync_ref_model", "ref_model_mixup_alpha", "ref_model_sync_steps", "f_divergence_type",
      "reference_free", "loss_weights", "use_weighting", "ld_alpha", "discopo_tau",
      "disable_dropout", "precompute_ref_*"},
     "Not supported: leave the key out; objective.kind and objective.reference say what is "
     "trained."},
    {{"offload_*", "cpu_offload", "param_offload", "optimizer_in_bwd"},
     "Not supported: weights stay on the device. memory.offload and zero_stage: 3 save memory."},
    {{"torch_compile", "torch_compile_*", "compile", "compile_*", "torchdynamo", "use_liger_kernel",
      "liger_*", "enable_liger_kernel", "cut_cross_entropy", "fused", "jit_mode_eval", "plugins",
      "overlap_grad_reduce", "overlap_param_gather", "ddp_*", "custom_sharded_layers",
      "accelerator_config", "average_tokens_across_devices", "upcast_layernorm"},
     "There is nothing to set: kernels, sharding and overlap are chosen by the program."},
    {{"dataloader_*", "num_workers", "streaming", "buffer_size", "remove_unused_columns",
      "label_names", "length_column_name", "data_collator", "pad_to_*", "drop_last",
      "ignore_data_skip", "split_batches", "dispatch_batches"},
     "There is nothing to set: batches are laid from token stores without padding, no example is "
     "dropped, and a resumed run continues at its place."},
    {{"chat_template",    "chat_template_path",
      "template",         "default_system",
      "dataset_*",        "tokenizer",
      "tokenizer_*",      "special_tokens",
      "tokens",           "added_tokens_overrides",
      "eos_token",        "pad_token",
      "bos_token",        "formatting_func",
      "processing_class", "preprocessing_num_workers",
      "max_samples",      "tokenized_path",
      "overwrite_cache",  "text_column",
      "prompt_template"},
     "Texts become tokens before training: `packtrain prepare --help` has the options; "
     "data.prepare_options gives them for data that data.train names."},
    {{"interleave_probs", "data_mixture", "mixture", "blend"},
     "data.train takes a list of {path, probability} maps, or share or repeats in its place."},
    {{"per_device_eval_batch_size", "eval_batch_size", "eval_accumulation_steps", "eval_packing",
      "eval_sample_packing", "batch_eval_metrics"},
     "Evaluations take batch.max_tokens_per_micro_batch; their loss does not depend on it."},
    {{"eval_iters", "limit_val_batches", "eval_samples", "max_eval_samples", "eval_delay"},
     "An evaluation takes the whole of data.validation, every run.evaluate_steps steps."},
    {{"prediction_loss_only", "compute_metrics", "compute_accuracy", "include_for_metrics",
      "eval_table_size", "predict_with_generate", "do_predict", "do_sample", "generation",
      "generation_*", "sample_prompts"},
     "Evaluation is by loss; samples.steps says when the model writes texts (section samples)."},
    {{"num_nodes", "nnodes", "devices", "num_gpus", "n_gpus", "gpus", "gpus_per_node",
      "nproc_per_node", "num_processes", "world_size", "local_rank", "accelerator", "hosts"},
     "The start says it: `packtrain-run -n N CONFIG`, or --hosts A:N,B:N."},
    {{"trust_remote_code", "model_revision", "revision", "hf_use_auth_token", "hub_token",
      "cache_dir", "model_init_kwargs", "tokenizer_revision"},
     "model.path is a folder on this machine, or hf:OWNER/NAME@REVISION; no code of it is run."},
    {{"rope_scaling", "rope_theta", "sliding_window", "tie_word_embeddings"},
     "The model's config.json says it; or model.config in the place of model.path."},
    {{"max_steps_per_epoch"}, "run.max_steps is the length of the whole run."},
    {{"do_train", "mode", "method"}, "The command says it: `packtrain train CONFIG`."},
    {{"fsdp_*", "deepspeed_*", "zero3_*", "hsdp", "dp_replicate_size", "data_parallel_replicate_*"},
     "parallel.zero_stage says what ranks share, parallel.shard_size how many share one copy; the "
     "other ranks hold further copies."},
    {{"use_galore", "galore_*", "use_badam", "badam_*", "use_apollo", "optim_args",
      "optim_target_modules"},
     "Not supported: optimizer.name has others; optimizer.moments: int8 saves memory."},
    {{"unfrozen_parameters", "trainable_parameters", "trainable_modules"},
     "model.frozen names the parameters that are not trained; all others are."},
    {{"auto_find_batch_size"},
     "batch.max_tokens_per_micro_batch: auto takes what fits; it does not change the loss."},
    {{"greater_is_better"}, "The lowest validation loss is the best."},
    {{"overwrite_output_dir"},
     "A run continues where its folder has checkpoints; give another run.output to start over."},
    {{"save_safetensors"}, "`packtrain export RUN` writes a Hugging Face folder of safetensors."},
    {{"push_to_hub", "hub_*", "export_dir"},
     "`packtrain export RUN` writes a Hugging Face folder, which you can upload."},
};

bool is_one_of(const std::string& typed, std::initializer_list<const char*> names) {
  return std::any_of(names.begin(), names.end(), [&typed](std::string_view name) {
    if (!name.ends_with('*')) return typed == name;
    name.remove_suffix(1);
    return typed.starts_with(name);
  });
}

}  // namespace

std::optional<std::string> our_name(const std::string& typed) {
  for (const OtherName& row : kOtherNames) {
    if (is_one_of(typed, row.others)) return row.ours;
  }
  return std::nullopt;
}

const char* other_way(const std::string& typed) {
  for (const OtherWay& way : kOtherWays) {
    if (is_one_of(typed, way.names)) return way.advice;
  }
  return nullptr;
}

}  // namespace packtrain
