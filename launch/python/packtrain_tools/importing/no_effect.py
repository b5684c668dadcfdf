"""Keys that are not carried, by the reason. A name that ends in `*` is a beginning."""

_LOG = ("of its logs: metrics.jsonl has every step, metrics.report_to sends it to tensorboard, wandb or "
        "mlflow")
_SPEED = "a choice for speed: the kernels here have the same results"
_HARDWARE = "of its processes: packtrain-run and `packtrain plan` do this here"
_WORK = "of its data work: `packtrain prepare` does this once, before training"
_HUB = "`packtrain push FOLDER hf:OWNER/NAME` writes to the hub after the run"
_CODE = "packtrain runs no code of model folders"

# Results do not depend on these.
NO_EFFECT = {
    _LOG:
        "logging_* log_* report_to run_name project use_tensorboard use_wandb wandb_* use_mlflow mlflow_* "
        "use_comet comet_* use_swanlab swanlab_* use_trackio trackio_* use_otel_metrics otel_* plot_loss "
        "include_num_input_tokens_seen include_tokens_per_second include_effective_tokens_per_second include_tkps "
        "disable_tqdm skip_memory_metrics print_param_status compute_accuracy debug",
    _SPEED:
        "flash_attn* flash_attention flash_optimum sdp_attention sdpa_varlen xformers_attention flex_attention "
        "flex_attn_compile_kwargs eager_attention sage_attention attn_implementation fused_attn_kernel "
        "large_head_attention use_kernels use_liger_kernel enable_liger_kernel liger_* use_unsloth use_unsloth_gc "
        "unsloth_* lora_mlp_kernel lora_qkv_kernel lora_o_kernel lora_embedding_kernel chunked_cross_entropy* "
        "cut_cross_entropy* tiled_mlp* torch_compile* tf32 use_cache use_kv_cache use_reentrant_gc use_v1_kernels "
        "experts_implementation padding_free pad_to_multiple_of pad_to_sequence_len deepcompile",
    _HARDWARE:
        "ddp ddp_* local_rank world_size device device_map max_memory gpu_memory_limit low_cpu_mem_usage use_cpu "
        "no_cuda ray_* use_ray master_addr master_port accelerator_config parallelism_config auto_find_batch_size "
        "torch_empty_cache_steps gc_steps gc_collect_steps optim_target_modules average_tokens_across_devices",
    _WORK:
        "dataset_prepared_path dataset_processes dataset_num_proc dataset_keep_in_memory dataset_shard_num "
        "dataset_shard_idx num_dataset_shards_to_save dataloader_* preprocessing_* remove_unused_columns "
        "skip_prepare_dataset overwrite_cache tokenized_path data_shared_file_system streaming buffer_size "
        "streaming_multipack_buffer_size dataset_streaming shuffle_merged_datasets shuffle_before_merging_datasets "
        "shuffle_dataset data_seed cache_dir sample_packing_bin_size sample_packing_eff_est "
        "sample_packing_mp_start_method multipack_real_batches eval_sample_packing eval_packing length_column_name "
        "label_names is_preprocess media_dir ignore_pad_token_for_loss group_by_length_column",
    _HUB:
        "push_to_hub* hub_* push_dataset_to_hub hf_use_auth_token hf_hub_token ms_hub_token om_hub_token token",
    _CODE:
        "trust_remote_code",
    "evaluation here is packed, with the same loss":
        "eval_batch_size per_device_eval_batch_size eval_accumulation_steps eval_delay eval_do_concat_batches "
        "prediction_loss_only",
    "files here are always safetensors, and written atomically":
        "save_safetensors save_on_each_node overwrite_output_dir save_first_step",
    "packtrain shards in its own way":
        "fsdp_version fsdp_final_state_dict_type fsdp_min_num_params fsdp_transformer_layer_cls_to_wrap",
    "the folder's own files say it":
        "model_type tokenizer_type tokenizer_use_fast tokenizer_legacy use_fast_tokenizer is_llama_derived_model "
        "is_mistral_derived_model is_falcon_derived_model is_qwen_derived_model base_model_config cls_model_config "
        "processor_type",
    "says what it is, and `packtrain train` does that":
        "do_train do_eval do_predict stage lora_task_type strict",
    "the loss and its best checkpoint are compared here":
        "metric_for_best_model greater_is_better load_best_model_at_end",
    "`packtrain plan` and guard.* look at numbers here":
        "loss_watchdog_* logging_nan_inf_filter",
    "float32 is kept where it matters: master weights, norms' sums, softmax and the loss":
        "upcast_layernorm upcast_lmhead_output embeddings_skip_upcast fp32_norms",
    "`packtrain export` and `merge` do this after the run":
        "export_* merge_lora merge_method create_new_adapter",
    "weights are gathered in precision.compute, and cast to 8 bits after that":
        "fp8_enable_fsdp_float8_all_gather",
    "8-bit products are those of cuBLASLt":
        "fp8_backend",
    "where its parts lie is decided here":
        "lora_on_cpu qlora_sharded_model_loading lora_fan_in_fan_out peft_autocast_adapter_dtype "
        "quantization_method bnb_4bit_quant_storage quantization_device_map offload_folder",
}

# Training with these gives other results than without.
CHANGES = {
    "noise on embeddings does not exist here":
        "neftune_noise_alpha noisy_embedding_alpha",
    "does not exist here: labels are what the data has":
        "label_smoothing_factor label_smoothing",
    "another loss: here it is the cross entropy of learned tokens":
        "loss_type use_dft_loss use_asft_loss use_eaft* eaft_* asft_alpha dft_*",
    "another optimizer or its options: AdamW is used":
        "use_galore galore_* use_apollo apollo_* use_badam badam_* use_muon use_adam_mini optim_args lr_groups "
        "embedding_lr embedding_lr_scale dion_* qgalore_* adam_beta3 adam_epsilon2",
    "does not exist here: products are in the type of precision.compute":
        "qat quantization model_quantization_config*",
    "attention as in config.json of the model is computed: change it there":
        "rope_scaling shift_attn mixture_of_depths scaling_softmax* overrides_of_model_config "
        "overrides_of_model_kwargs model_init_kwargs",
    "of experts: set router_aux_loss_coef and output_router_logits in config.json of the model":
        "moe_aux_loss_coef router_aux_loss_coef",
    "add the tokens to the tokenizer's folder, and set model.resize_vocabulary":
        "tokens added_tokens_overrides add_tokens add_special_tokens resize_vocab resize_token_embeddings_to_32x "
        "new_special_tokens_config init_special_tokens mean_resizing_embeddings",
    "all parameters are trained: model.frozen lists those that are not":
        "unfrozen_parameters freeze_* use_llama_pro",
    "data of text alone is trained":
        "image_* video_* audio_* use_audio_in_video processor_kwargs",
    "of another trainer class, which does not exist here":
        "trainer_cls plugins use_mca use_megatron_bridge use_hyper_parallel use_kt kt_*",
    "weights are read from model.path: model.config makes random ones":
        "train_from_scratch reinit_weights",
}

AXOLOTL_CHANGES = {
    "the tokenizer.json of the folder is used: compare with `packtrain inspect STORE`":
        "tokenizer_use_mistral_common",
    "config.json of the model decides: change it there":
        "model_config model_config_type overrides_of_model_config",
    "the schedule does not have this here":
        "cosine_constant_lr_ratio lr_quadratic_warmup eta_min lr_div_factor",
    "of the kinds of data above none has it":
        "train_on_inputs chat_template chat_template_jinja",
    "variables of a template are options of `prepare`: --template-option NAME=VALUE":
        "chat_template_kwargs",
    "the tokenizer's folder says which token ends a text: `prepare --end-token TOKEN` gives another":
        "special_tokens eot_tokens",
    "packs do not cross examples here":
        "pretraining_sample_concatenation curriculum_sampling use_pose pose_*",
    "lengths of rows are data.max_length in evaluation, too":
        "eval_sequence_len",
    "`prepare --min-length N` leaves out short examples":
        "min_sample_len",
}

AXOLOTL_NO_EFFECT = {
    "a folder has no revisions":
        "revision_of_model",
    "kernels and loading of its own, for speed and memory":
        "use_scattermoe use_sonicmoe use_dsv4_kernels use_glm_dsa_kernels llama4_linearized_experts "
        "experimental_skip_move_to_device gemma4_hybrid_attn_impl dsv4_*",
    "evaluation here is the loss alone; samples.* shows texts":
        "eval_table_size eval_max_new_tokens",
    "of other kinds of training":
        "trl vllm dpo_* kto_* simpo_gamma cpo_alpha orpo_alpha rl_beta rl reward_model process_reward_model "
        "pretraining_dataset",
    "samples.* shows texts of the model while it trains":
        "generate_samples num_generation_samples generation_* do_causal_lm_eval eval_causal_lm_metrics "
        "do_bench_eval bench_*",
    "run.trace_steps writes a timeline":
        "profiler_*",
    "follows from the lengths":
        "batch_flattening sample_packing_group_size sample_packing_sequentially",
}

FACTORY_CHANGES = {
    "`prepare` learns no part of prompts but by --train-on":
        "train_on_prompt mask_history",
    "of tools in LLaMA-Factory's templates: the tokenizer's own template writes them":
        "tool_format",
    "names of special tokens in the data: `prepare --special-tokens-in-data plain`":
        "split_special_tokens",
}

FACTORY_NO_EFFECT = {
    "of other kinds of training":
        "pref_* dpo_label_smoothing kto_* simpo_gamma ppo_* ref_model* reward_model* ld_alpha oft_* module_dropout",
    "`packtrain chat` and servers generate":
        "infer_* vllm_* sglang_* generate_* predict_with_generate eval_num_beams temperature top_p top_k do_sample "
        "max_new_tokens",
    "run.trace_steps writes a timeline":
        "enable_torch_profiler profiler_* profile_modules",
    "a folder has no revisions":
        "model_revision",
    "there is no value for 1":
        "hyper_parallel_*",
    "of a whole model there is no adapter":
        "lora_* adapter_folder pissa_* additional_target",
}

TRL_NO_EFFECT = {
    "`prepare` has a tokenizer with all its tokens":
        "pad_token",
    "a folder has no revisions":
        "model_revision",
    "weights are read in the type of precision.compute, and master weights are float32":
        "dtype torch_dtype",
    "the base is nf4, with double quantisation":
        "bnb_4bit_* use_bnb_nested_quant",
    "there are no buffers of biases":
        "ignore_bias_buffers",
}
