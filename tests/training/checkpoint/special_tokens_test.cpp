#include "training/checkpoint/hf_special_tokens.h"

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "tests/helpers/temporary_folder.h"

namespace packtrain::test {
namespace {

constexpr const char* kTokenizer =
    R"({"added_tokens": [{"id": 7, "content": "<s>"}, {"id": 9, "content": "<end>"}]})";

TEST(SpecialTokens, AreTheModelsOwnWhereItNamesThem) {
  const auto ids = special_token_ids(R"({"eos_token_id": [2, 3], "bos_token_id": null})", "");
  EXPECT_EQ(ids, nlohmann::json::parse(R"({"eos_token_id": [2, 3]})"));
}

TEST(SpecialTokens, ComeFromTheTokenizersFilesOtherwise) {
  const TemporaryFolder folder;
  write_bytes(folder / "tokenizer.json", kTokenizer);
  write_bytes(folder / "tokenizer_config.json",
              R"({"bos_token": {"content": "<s>"}, "eos_token": "<end>", "pad_token": null})");
  EXPECT_EQ(special_token_ids("{}", folder.path()),
            nlohmann::json::parse(R"({"bos_token_id": 7, "eos_token_id": 9})"));
  EXPECT_EQ(special_token_ids(R"({"eos_token_id": 1})", folder.path())["eos_token_id"], 1);
}

TEST(SpecialTokens, AreLeftOutWhenUnknown) {
  const TemporaryFolder folder;
  EXPECT_TRUE(special_token_ids("", folder.path()).empty());
}

TEST(SpecialTokens, OfADamagedTokenizerAreANamedError) {
  const TemporaryFolder folder;
  write_bytes(folder / "tokenizer.json", "{");
  const Error error = error_of([&] { special_token_ids("", folder.path()); });
  EXPECT_EQ(error.category(), ErrorCategory::kCheckpoint);
  EXPECT_NE(error.message().find("tokenizer.json"), std::string::npos);
}

TEST(SpecialTokens, AreNotLookedForInWhatIsNoToken) {
  const TemporaryFolder folder;
  write_bytes(folder / "tokenizer_config.json",
              R"({"bos_token": {"content": 7}, "eos_token": [1], "pad_token": "<pad>"})");
  write_bytes(folder / "tokenizer.json",
              R"({"added_tokens": [1, null, {"content": {}}, {"content": "<pad>", "id": 5}]})");
  EXPECT_EQ(special_token_ids("", folder.path()).dump(), R"({"pad_token_id":5})");
}

TEST(TransformersVersion, IsTheModelsOwnOrNone) {
  EXPECT_EQ(version_of_transformers(R"({"a": 1, "transformers_version": "4.40.1"})"),
            nlohmann::json::parse(R"({"transformers_version": "4.40.1"})"));
  EXPECT_EQ(version_of_transformers("{}").dump(), "{}");
  EXPECT_EQ(version_of_transformers("").dump(), "{}");
}

}  // namespace
}  // namespace packtrain::test
