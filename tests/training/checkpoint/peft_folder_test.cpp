// PEFT folders, written and read again by ranks.
#include <ATen/ops/full.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <string>

#include "framework/core/safetensors.h"
#include "tests/helpers/temporary_folder.h"
#include "tests/training/checkpoint/peft_samples.h"
#include "tests/training/checkpoint/small_models.h"
#include "training/checkpoint/peft_folder.h"

namespace packtrain::test {
namespace {

void expect_same_after_reading(const DecoderConfig& base, const LoraOptions& options) {
  const TemporaryFolder folder;
  const DecoderConfig config = adapted(base, options);
  const Values wanted = random_values(config);
  write_values(folder / "adapter", config, options, wanted);
  const DecoderConfig read = adapted(base, read_peft_options(folder / "adapter", base));
  EXPECT_EQ(read.adapter->weights, config.adapter->weights);
  EXPECT_EQ(read.adapter->trained, config.adapter->trained);
  for (const std::int64_t num_ranks : {1, 3, 50}) {
    for (const auto& [name, value] : read_by_ranks(folder / "adapter", read, num_ranks)) {
      EXPECT_TRUE(value.equal(wanted.at(name))) << name << ", " << num_ranks << " ranks";
    }
  }
}

TEST(PeftFolder, IsReadAsItWasWrittenByAnyNumberOfRanks) {
  LoraOptions options = options_of_rank(4);
  expect_same_after_reading(small_llama(), options);
  expect_same_after_reading(small_falcon(), options);
  options.rank_pattern = {{"v_proj", 3}, {"*layers.1.*", 5}};
  options.save = {"lm_head", "embed_tokens", "model.layers.0.input_layernorm"};
  expect_same_after_reading(small_llama(), options);
  options.save = {"embed_tokens"};
  expect_same_after_reading(small_llama(/*tied=*/true), options);
  options.save.clear();
  options.targets = {"embed_tokens", "lm_head", "o_proj"};
  expect_same_after_reading(small_llama(), options);
}

TEST(PeftFolder, HasMagnitudesOfModules) {
  LoraOptions options = options_of_rank(4);
  options.use_dora = true;
  expect_same_after_reading(small_llama(), options);
  expect_same_after_reading(small_falcon(), options);
  EXPECT_TRUE(sizes_of(adapted(small_llama(), options))
                  .contains("layers.0.attention.qkv.v_proj.lora_magnitude_vector"));
}

TEST(PeftFolder, OfExpertsIsReadAsItWasWritten) {
  LoraOptions options = options_of_rank(4);
  options.targets = {"all-linear", "experts.gate_up_proj", "experts.down_proj"};
  expect_same_after_reading(small_qwen_moe(), options);
  expect_same_after_reading(small_gpt_oss(), options);
  options.rank_pattern = {{"experts.down_proj", 3}, {"*layers.0.*", 2}};
  options.alpha_pattern = {{"*.experts.gate_up_proj", 0.5}};
  expect_same_after_reading(small_qwen_moe(), options);
  options.targets = {"q_proj", "experts.down_proj"};
  options.layers_to_transform = {2};
  expect_same_after_reading(small_qwen_moe(), options);
  options.layers_to_transform.clear();
  options.rank_pattern.clear();
  options.alpha_pattern.clear();
  options.targets = {"experts.gate_up_proj"};
  expect_same_after_reading(small_gpt_oss(), options);
}

// PEFT's lora_B is [outputs, rank * experts]: the experts of one rank are next to each other.
TEST(PeftFolder, HasTheFactorsOfExpertsInPeftsOrder) {
  const TemporaryFolder folder;
  LoraOptions options = options_of_rank(2);
  options.targets = {"experts.gate_up_proj"};
  const DecoderConfig config = adapted(small_gpt_oss(), options);
  Values values = random_values(config);
  write_values(folder / "adapter", config, options, values);
  const auto file =
      SafetensorsFile::open(folder / "adapter/adapter_model.safetensors", ErrorCategory::kData);
  const std::string module = "base_model.model.model.layers.0.mlp.experts.";
  const TensorView& b = file->tensor(module + "lora_B.weight");
  EXPECT_EQ(b.shape, (std::vector<std::int64_t>{24, 6}));
  EXPECT_EQ(file->tensor(module + "lora_A.weight").shape, (std::vector<std::int64_t>{6, 24}));
  const auto* theirs = reinterpret_cast<const float*>(b.data.data());
  const at::Tensor ours =
      values.at("layers.0.mlp.experts.gate_up.gate_up_proj.lora_B").view({3, 24, 2});
  EXPECT_EQ(theirs[0], ours[0][0][0].item<float>());
  EXPECT_EQ(theirs[1 * 6 + 0 * 3 + 2], ours[2][12][0].item<float>());  // first row of up
  EXPECT_EQ(theirs[4 * 6 + 1 * 3 + 1], ours[1][2][1].item<float>());   // third row of gate
}

TEST(PeftFolder, HasTheRowsOfBInTheOrderOfTheModulesRows) {
  const TemporaryFolder folder;
  const LoraOptions options = options_of_rank(1);
  const DecoderConfig config = adapted(small_falcon(), options);
  Values values = random_values(config);
  write_values(folder / "adapter", config, options, values);
  const auto file =
      SafetensorsFile::open(folder / "adapter/adapter_model.safetensors", ErrorCategory::kData);
  const TensorView& b =
      file->tensor("base_model.model.transformer.h.0.self_attention.query_key_value.lora_B.weight");
  const auto* theirs = reinterpret_cast<const float*>(b.data.data());
  const at::Tensor ours = values.at("layers.0.attention.qkv.query_key_value.lora_B");
  // Theirs: for each of 2 key heads 3 query heads, the key, the value, of 4 rows. Ours: 6 query
  // heads, 2 keys, 2 values.
  EXPECT_EQ(theirs[3 * 4], ours[6 * 4].item<float>());                // first key head
  EXPECT_EQ(theirs[5 * 4 + 1], ours[3 * 4 + 1].item<float>());        // fourth query head
  EXPECT_EQ(theirs[(5 + 4) * 4 + 2], ours[9 * 4 + 2].item<float>());  // second value head
}

TEST(PeftFolder, LeavesOtherShardsAsTheyAre) {
  const TemporaryFolder folder;
  const LoraOptions options = options_of_rank(2);
  const DecoderConfig config = adapted(small_llama(), options);
  write_values(folder / "adapter", config, options, random_values(config));
  const at::Tensor weight = at::full({5}, 7.0F);
  const ShardView shard{"layers.0.attention.qkv.weight", {40, 24}, 3, 5, false, weight, {}};
  read_peft_weights(folder / "adapter", config, std::span(&shard, 1));
  EXPECT_TRUE(weight.equal(at::full({5}, 7.0F)));
}

TEST(PeftFolder, IsNotWrittenOverAnother) {
  const TemporaryFolder folder;
  const LoraOptions options = options_of_rank(2);
  const DecoderConfig config = adapted(small_llama(), options);
  const Error error =
      error_of([&] { write_values(folder.path(), config, options, random_values(config)); });
  EXPECT_EQ(error.category(), ErrorCategory::kCheckpoint);
  EXPECT_FALSE(std::filesystem::exists(folder.path() + ".tmp"));
}

}  // namespace
}  // namespace packtrain::test
