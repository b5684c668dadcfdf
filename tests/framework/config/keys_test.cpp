// Tests the list of keys, and the errors of unknown ones.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include "framework/config/other_names.h"
#include "framework/config/unknown_key.h"
#include "framework/core/file.h"
#include "tests/framework/config/config_text.h"

namespace packtrain {
namespace {

// Users' configurations depend on these keys: this list changes on purpose only.
TEST(ConfigKeys, ThePublicListIsFrozen) {
  std::string keys;
  for (const std::string& key : config_keys()) keys += key + "\n";
  EXPECT_EQ(keys, read_text(CONFIG_KEYS_FILE, ErrorCategory::kInternal));
}

TEST(ConfigKeys, AnUnknownKeyNamesTheNearestOne) {
  EXPECT_EQ(load_error("run:\n  seed: 1\n  num_epoch: 3\n"),
            "config.yaml:3:3: unknown key 'run.num_epoch'\n  Did you mean run.num_epochs?");
  EXPECT_EQ(load_error("optimizer: {lerning_rate: 1}"),
            "config.yaml:1:13: unknown key 'optimizer.lerning_rate'\n"
            "  Did you mean optimizer.learning_rate?");
}

TEST(ConfigKeys, AnUnknownSectionNamesTheNearestOne) {
  EXPECT_EQ(load_error("optimiser: {learning_rate: 1}"),
            "config.yaml:1:1: unknown section 'optimiser'\n  Did you mean optimizer?");
  EXPECT_EQ(
      load_error("\n\nentirely: {different: 1}"),
      "config.yaml:3:1: unknown section 'entirely'\n  Sections: model, adapter, adapters, data, "
      "objective, batch, optimizer, schedule, parallel, precision, checkpoint, guard, metrics, "
      "memory, run, "
      "samples, debug, fault.");
}

TEST(ConfigKeys, ASimilarKeyOfAnotherSectionIsShownWithTheKeysOfItsOwn) {
  const std::string error = load_error("samples: {count: 1}");
  EXPECT_NE(error.find("Did you mean batch.cost? Keys of samples: "), std::string::npos) << error;
}

TEST(ConfigKeys, TheNormOfGradientsIsFoundByItsOtherNames) {
  for (const char* name : {"clip_norm", "clip_gradients", "gradient_clip"}) {
    const std::string error = load_error(fmt::format("optimizer: {{{}: 1}}", name));
    EXPECT_NE(error.find("is called optimizer.max_grad_norm here"), std::string::npos) << error;
  }
}

TEST(ConfigKeys, AKeyOfAnotherSectionIsSentThere) {
  EXPECT_EQ(load_error("model: {max_length: 1}"),
            "config.yaml:1:9: unknown key 'model.max_length'\n  Did you mean data.max_length?");
  EXPECT_EQ(load_error("learning_rate: 1e-5"),
            "config.yaml:1:1: unknown section 'learning_rate'\n"
            "  Did you mean optimizer.learning_rate?");
  EXPECT_EQ(load_error("name: adamw"),
            "config.yaml:1:1: unknown section 'name'\n"
            "  Did you mean adapter.name or optimizer.name or schedule.name?");
  EXPECT_EQ(load_error("run: {savesteps: 1}"),
            "config.yaml:1:7: unknown key 'run.savesteps'\n"
            "  Did you mean checkpoint.save_steps? " +
                list_keys("run", config_keys()));
}

TEST(ConfigKeys, WithoutAnythingNearTheSectionsKeysAreListed) {
  EXPECT_EQ(load_error("memory: {zzzzzzzzzz: 1}"),
            "config.yaml:1:10: unknown key 'memory.zzzzzzzzzz'\n  Keys of memory: recompute, "
            "fit, limit_gib, offload.");
}

TEST(ConfigKeys, WhatIsDoneInAnotherWayHereIsSaidSo) {
  const std::vector<std::pair<std::string, std::string>> ways = {
      {"save_strategy", "checkpoint.save_steps"},
      {"eval_strategy", "run.evaluate_steps"},
      {"save_strategy", "epoch"},
      {"eval_strategy", "epoch"},
      {"report_to", "metrics.report_to"},
      {"tensorboard_dir", "metrics.report_to"},
      {"logging_steps", "metrics.jsonl"},
      {"val_set_size", "--validation-fraction"},
      {"train_on_inputs", "prepare --train-on"},
      {"attn_implementation", "chosen by device"},
      {"lora_r", "adapter.rank"},
      {"tensor_parallel", "parallel.zero_stage"},
      {"neftune_noise_alpha", "Not supported"},
      {"lora_target_modules", "adapter.targets"},
      {"lora_use_dora", "adapter.use_dora"},
      {"lora_anything", "adapter.kind: lora"},
      {"fp8_recipe", "precision.linear: fp8_tensor"},
      {"offload_optimizer", "memory.offload"},
      {"offload_param", "Not supported"},
      {"torch_compile", "nothing to set"},
      {"dataloader_num_workers", "nothing to set"},
      {"dataset_text_field", "packtrain prepare"},
      {"chat_template", "packtrain prepare"},
      {"per_device_eval_batch_size", "batch.max_tokens_per_micro_batch"},
      {"wandb_name", "packtrain follow"},
      {"nproc_per_node", "packtrain-run -n"},
      {"trust_remote_code", "model.path"},
      {"reward_model", "objective.kind: policy"},
      {"use_vllm", "generates no answers"},
      {"precompute_ref_log_probs", "score MODEL STORE --log-probs"},
      {"ld_alpha", "Not supported"},
      {"fsdp_transformer_layer_cls_to_wrap", "parallel.zero_stage"},
      {"sync_each_batch", "parallel.accumulate"},
      {"save_only_model", "checkpoint.weights_only"},
      {"save_safetensors", "packtrain export"}};
  for (const auto& [typed, ours] : ways) {
    EXPECT_NE(load_error(typed + ": 1").find(ours), std::string::npos) << typed;
    EXPECT_NE(load_error("run: {" + typed + ": 1}").find(ours), std::string::npos) << typed;
  }
}

TEST(ConfigKeys, AllUnknownNamesAreInOneErrorBeforeAnyValueIsRead) {
  EXPECT_EQ(load_error("learning_rate: 1e-5\n"
                       "run: {num_epochs: many, num_epoch: 3, zzzzzzzzzz: 1}\n"
                       "training: {lora_r: 8, qqqqqqqqqq: 1}\n",
                       {{"lr=1e-4"}}),
            "6 names are not known\n"
            "  config.yaml:1:1: unknown section 'learning_rate': Did you mean "
            "optimizer.learning_rate?\n"
            "  config.yaml:2:25: unknown key 'run.num_epoch': Did you mean run.num_epochs?\n"
            "  config.yaml:2:39: unknown key 'run.zzzzzzzzzz': Nothing here is like it.\n"
            "  config.yaml:3:1: unknown section 'training': Nothing here is like it.\n"
            "  config.yaml:3:12: unknown key 'training.lora_r': 'lora_r' is called adapter.rank "
            "here.\n"
            "  command line: lr=1e-4: unknown section 'lr': 'lr' is called "
            "optimizer.learning_rate here.\n"
            "  docs/configuration.md has all keys, `packtrain config --explain SECTION` those of "
            "a section.");
}

TEST(ConfigKeys, AValueInPlaceOfASectionIsAnsweredWithItsKeys) {
  EXPECT_EQ(load_error("precision: bf16"),
            "config.yaml:1:12: precision: got 'bf16', wanted a map of keys\n"
            "  Keys of precision: compute, master, reduce, deterministic, linear, "
            "weight_gradient, keep_bf16.");
}

TEST(ConfigKeys, NoKeyOfOursIsTakenForAnotherTrainers) {
  for (const std::string& name : config_keys()) {
    if (name == "fault.num_steps") continue;  // elsewhere the length of a run
    const std::string key = name.substr(name.find('.') + 1);
    EXPECT_FALSE(our_name(key)) << name;
    EXPECT_EQ(other_way(key), nullptr) << name;
  }
}

struct OtherName {
  const char* typed;
  const char* ours;
};

class NamesOfOtherTrainers : public ::testing::TestWithParam<OtherName> {};

TEST_P(NamesOfOtherTrainers, AreAnsweredWithOurs) {
  const auto& [typed, ours] = GetParam();
  const std::string answer = fmt::format("'{}' is called {} here.", typed, ours);
  for (const std::string& yaml :
       {fmt::format("{}: 1", typed), fmt::format("run: {{{}: 1}}", typed)}) {
    const std::string error = load_error(yaml);
    EXPECT_NE(error.find(answer), std::string::npos) << error;
  }
}

INSTANTIATE_TEST_SUITE_P(
    Config, NamesOfOtherTrainers,
    ::testing::Values(
        OtherName{"num_train_epochs", "run.num_epochs"},
        OtherName{"sequence_len", "data.max_length"},
        OtherName{"max_seq_length", "data.max_length"},
        OtherName{"sample_packing", "batch.strategy"}, OtherName{"packing", "batch.strategy"},
        OtherName{"per_device_train_batch_size", "batch.micro_batch_size"},
        OtherName{"gradient_accumulation_steps", "batch.global_batch_size"},
        OtherName{"lr", "optimizer.learning_rate"}, OtherName{"bf16", "precision.compute"},
        OtherName{"gradient_checkpointing", "memory.recompute"},
        OtherName{"model_name_or_path", "model.path"}, OtherName{"output_dir", "run.output"},
        OtherName{"eval_steps", "run.evaluate_steps"},
        OtherName{"eval_on_start", "run.evaluate_at_start"},
        OtherName{"num_decay_steps", "schedule.decay_steps"}, OtherName{"dpo", "objective.kind"},
        OtherName{"loss_type", "objective.kind"}, OtherName{"pref_beta", "objective.beta"},
        OtherName{"simpo_gamma", "objective.target_margin"},
        OtherName{"rpo_alpha", "objective.next_token_weight"},
        OtherName{"ref_model", "objective.reference_path"},
        OtherName{"epsilon_high", "objective.clip_high"}));

TEST(ConfigKeys, EveryDefaultIsWrittenOut) {
  const std::string yaml = dump_config(Config());
  for (const std::string& key : config_keys()) {
    const bool has_section = key.find('.') != std::string::npos;
    const std::string line = (has_section ? "\n  " : "\n") + key.substr(key.find('.') + 1) + ": ";
    EXPECT_NE(yaml.find(line), std::string::npos) << key;
  }
}

}  // namespace
}  // namespace packtrain
