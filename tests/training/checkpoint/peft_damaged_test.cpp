// PEFT folders that are damaged, hostile or of another model.
#include <ATen/ops/full.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <filesystem>
#include <limits>
#include <map>
#include <nlohmann/json.hpp>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "framework/core/safetensors.h"
#include "tests/helpers/temporary_folder.h"
#include "tests/training/checkpoint/peft_samples.h"
#include "tests/training/checkpoint/small_models.h"
#include "training/checkpoint/peft_folder.h"

namespace packtrain::test {
namespace {

using nlohmann::json;

// A folder of q_proj and v_proj, rank 2, that a test damages.
class Damaged : public ::testing::Test {
 protected:
  Damaged() {
    options_.targets = {"q_proj", "v_proj"};
    write_values(path(), adapted(small_llama(), options_), options_,
                 random_values(adapted(small_llama(), options_)));
    read_tensors();
  }

  struct Stored {
    DataType dtype = DataType::kFloat32;
    std::vector<std::int64_t> shape;
    std::vector<std::byte> data;
  };

  std::string path() const { return folder_ / "adapter"; }
  std::string weights() const { return path() + "/" + kPeftWeightsName; }
  static std::string name_of(const char* module, const char* matrix) {
    return std::string("base_model.model.model.layers.1.self_attn.") + module + "." + matrix +
           ".weight";
  }

  void read_tensors() {
    tensors_.clear();
    const auto file = SafetensorsFile::open(weights(), ErrorCategory::kData);
    for (const auto& [name, view] : file->tensors()) {
      tensors_[name] = {view.dtype, view.shape, {view.data.begin(), view.data.end()}};
    }
  }

  void write_tensors() const {
    std::vector<TensorToWrite> list;
    for (const auto& [name, tensor] : tensors_) {
      list.push_back({name, tensor.dtype, tensor.shape, tensor.data});
    }
    write_safetensors(weights(), list, {}, ErrorCategory::kInternal);
  }

  void change_config(const std::string& key, const json& value) const {
    const std::string file = path() + "/adapter_config.json";
    json document = json::parse(read_text(file, ErrorCategory::kInternal));
    document[key] = value;
    write_bytes(file, document.dump());
  }

  void expect_error(ErrorCategory category, const std::string& part,
                    const DecoderConfig& base = small_llama()) const {
    const Error error = error_of([&] { read_peft_options(path(), base); });
    EXPECT_EQ(error.category(), category) << error.what();
    EXPECT_NE(error.message().find(part), std::string::npos) << error.what();
    EXPECT_NE(error.message().find("/adapter_"), std::string::npos) << error.what();
  }

  TemporaryFolder folder_;
  LoraOptions options_ = options_of_rank(2);
  std::map<std::string, Stored> tensors_;
};

using PeftFolderDamaged = Damaged;

TEST_F(PeftFolderDamaged, OfAMissingTensorNamesIt) {
  tensors_.erase(name_of("v_proj", "lora_B"));
  write_tensors();
  expect_error(ErrorCategory::kCheckpoint, name_of("v_proj", "lora_B"));
}

TEST_F(PeftFolderDamaged, OfASurplusTensorNamesIt) {
  tensors_[name_of("k_proj", "lora_A")] = tensors_[name_of("q_proj", "lora_A")];
  write_tensors();
  expect_error(ErrorCategory::kCheckpoint, name_of("k_proj", "lora_A"));
}

TEST_F(PeftFolderDamaged, OfAnotherShapeNamesBothShapes) {
  Stored& a = tensors_[name_of("q_proj", "lora_A")];
  std::swap(a.shape[0], a.shape[1]);
  write_tensors();
  expect_error(ErrorCategory::kCheckpoint, "has shape [24, 2], want [2, 24]");
}

TEST_F(PeftFolderDamaged, OfAnotherRankThanItsOptionsNamesTheTensor) {
  change_config("r", 3);
  expect_error(ErrorCategory::kCheckpoint, "lora_A.weight");
  change_config("r", 1000);
  expect_error(ErrorCategory::kConfig, "1000");
}

TEST_F(PeftFolderDamaged, OfIntegersIsRefused) {
  tensors_[name_of("q_proj", "lora_A")].dtype = DataType::kInt32;
  write_tensors();
  expect_error(ErrorCategory::kCheckpoint, "is not float32");
}

TEST_F(PeftFolderDamaged, OfTruncatedFilesIsRefused) {
  const auto size = std::filesystem::file_size(weights());
  for (const std::uintmax_t kept : {size - 1, size / 2, std::uintmax_t{9}, std::uintmax_t{0}}) {
    std::filesystem::resize_file(weights(), kept);
    expect_error(ErrorCategory::kCheckpoint, kPeftWeightsName);
  }
}

TEST_F(PeftFolderDamaged, OfGiantShapesIsRefused) {
  const std::string header =
      R"({"x":{"dtype":"F32","shape":[4611686018427387904,8],"data_offsets":[0,8]}})";
  std::string bytes(8, '\0');
  bytes[0] = static_cast<char>(header.size());
  write_bytes(weights(), bytes + header + std::string(8, '\0'));
  expect_error(ErrorCategory::kCheckpoint, kPeftWeightsName);
}

TEST_F(PeftFolderDamaged, OfAnotherModelIsRefused) {
  expect_error(ErrorCategory::kConfig, "names no module of the model (falcon)", small_falcon());
  DecoderConfig wider = small_llama();
  wider.hidden_size = 48;
  expect_error(ErrorCategory::kCheckpoint, "has shape", wider);
  DecoderConfig deeper = small_llama();
  deeper.num_layers = 3;
  expect_error(ErrorCategory::kCheckpoint, "layers.2.", deeper);
}

TEST_F(PeftFolderDamaged, WithoutFilesIsAConfigurationError) {
  std::filesystem::remove(weights());
  expect_error(ErrorCategory::kConfig, kPeftWeightsName);
  std::filesystem::remove(path() + "/adapter_config.json");
  expect_error(ErrorCategory::kConfig, "adapter_config.json");
}

TEST_F(PeftFolderDamaged, OfNaNsNamesTheTensorAndReadsNothingBeforeTheShapesAreRight) {
  auto& b = tensors_[name_of("q_proj", "lora_B")];
  const float nan = std::numeric_limits<float>::quiet_NaN();
  std::ranges::copy(std::as_bytes(std::span(&nan, 1)), b.data.begin());
  write_tensors();
  const DecoderConfig config = adapted(small_llama(), options_);
  const Error error = error_of([&] { read_by_ranks(path(), config, 1); });
  EXPECT_EQ(error.category(), ErrorCategory::kCheckpoint);
  EXPECT_NE(error.message().find(name_of("q_proj", "lora_B")), std::string::npos);

  tensors_.erase(name_of("v_proj", "lora_A"));
  write_tensors();
  const at::Tensor weight = at::full({1}, 7.0F);
  const ShardView shard{"layers.0.attention.qkv.lora_A", {4 * 24}, 0, 1, true, weight, {}};
  EXPECT_EQ(error_of([&] { read_peft_weights(path(), config, std::span(&shard, 1)); }).category(),
            ErrorCategory::kCheckpoint);
  EXPECT_EQ(weight.item<float>(), 7.0F);
}

TEST_F(PeftFolderDamaged, OfASavedTiedEmbeddingMustSayThatItIsTied) {
  options_.save = {"embed_tokens"};
  const DecoderConfig base = small_llama(/*tied=*/true);
  const DecoderConfig config = adapted(base, options_);
  std::filesystem::remove_all(path());
  write_values(path(), config, options_, random_values(config));
  EXPECT_EQ(read_peft_options(path(), base).save, std::vector<std::string>{"model.embed_tokens"});
  change_config("ensure_weight_tying", false);
  expect_error(ErrorCategory::kConfig, "'ensure_weight_tying' is false", base);
}

TEST_F(PeftFolderDamaged, OfASavedTiedEmbeddingHasTheHeadAsASecondTensor) {
  options_.save = {"embed_tokens"};
  const DecoderConfig base = small_llama(/*tied=*/true);
  const DecoderConfig config = adapted(base, options_);
  std::filesystem::remove_all(path());
  write_values(path(), config, options_, random_values(config));
  read_tensors();
  const std::string head = "base_model.model.lm_head.weight";
  EXPECT_EQ(tensors_.at(head).data, tensors_.at("base_model.model.model.embed_tokens.weight").data);
  tensors_.at(head).data.front() ^= std::byte{1};
  write_tensors();
  expect_error(ErrorCategory::kCheckpoint, head, base);
  tensors_.erase(head);
  write_tensors();
  expect_error(ErrorCategory::kCheckpoint, head, base);
}

TEST_F(PeftFolderDamaged, WithACopyOfTheModelsHeadIsRead) {
  options_.targets = {"lm_head"};
  const DecoderConfig config = adapted(small_llama(), options_);
  std::filesystem::remove_all(path());
  write_values(path(), config, options_, random_values(config));
  read_tensors();
  const std::vector<std::byte> data(4);
  tensors_["base_model.model.lm_head.base_layer.weight"] = {DataType::kFloat32, {1}, data};
  write_tensors();
  EXPECT_EQ(read_peft_options(path(), small_llama()).targets, options_.targets);
  tensors_["base_model.model.model.embed_tokens.base_layer.weight"] = {
      DataType::kFloat32, {1}, data};
  write_tensors();
  expect_error(ErrorCategory::kCheckpoint, "embed_tokens.base_layer.weight");
}

TEST_F(PeftFolderDamaged, OfARegularExpressionHasTheModulesOfItsTensors) {
  for (const char* expression : {"all-linear", ".*self_attn\\.(q|v)_proj", "(a+)+$"}) {
    change_config("target_modules", expression);
    const DecoderConfig base = small_llama();
    EXPECT_EQ(adapted(base, read_peft_options(path(), base)).adapter->weights,
              adapted(base, options_).adapter->weights);
  }
}

TEST_F(PeftFolderDamaged, NamesOfModulesThatTheModelLacksAreIgnoredAsInPeft) {
  change_config("target_modules", {"q_proj", "v_proj", "query_key_value"});
  change_config("rank_pattern", {{"c_attn", 5}});
  change_config("exclude_modules", {"lm_head"});
  const LoraOptions options = read_peft_options(path(), small_llama());
  EXPECT_EQ(options.targets, (std::vector<std::string>{"q_proj", "v_proj"}));
  EXPECT_TRUE(options.rank_pattern.empty());
}

}  // namespace
}  // namespace packtrain::test
