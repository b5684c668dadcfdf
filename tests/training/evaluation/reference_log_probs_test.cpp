// Tests the reading of reference log-probabilities from files of scores.
#include "training/evaluation/reference_log_probs.h"

#include <gtest/gtest.h>

#include "framework/core/error.h"
#include "framework/data/joined_store.h"
#include "framework/data/store_format.h"
#include "tests/framework/data/small_groups.h"
#include "tests/helpers/temporary_folder.h"
#include "training/evaluation/score_file.h"

namespace packtrain {
namespace {

using test::TemporaryFolder;

constexpr const char* kDigest = "0123456789abcdef";

std::string command(const std::string& folder) {
  return "make " + folder;
}

// Values first, first + 1, ... in the store's file.
void write_file(const TokenStore& store, float first, std::int64_t num_missing = 0) {
  std::vector<std::int64_t> offsets = {0};
  for (const std::int32_t count : store.num_loss_tokens())
    offsets.push_back(offsets.back() + count);
  std::vector<float> values;
  for (std::int64_t v = 0; v < offsets.back() - num_missing; ++v) {
    values.push_back(first + static_cast<float>(v));
  }
  const std::vector<TensorToWrite> tensors = {
      {"offsets", DataType::kInt64, {std::ssize(offsets)}, std::as_bytes(std::span(offsets))},
      {"log_probs", DataType::kFloat32, {std::ssize(values)}, std::as_bytes(std::span(values))}};
  write_safetensors(store.folder() + "/" + scores_name(kDigest), tensors,
                    {{kScoresDataKey, scored_data(store)}}, ErrorCategory::kData);
}

std::vector<float> values_of(const ReferenceLogProbs& reference, std::int64_t example) {
  const auto values = reference.of(example);
  return {values.begin(), values.end()};
}

std::string error_of(const TokenStore& store) {
  try {
    const ReferenceLogProbs reference(store, kDigest, command);
  } catch (const Error& error) {
    EXPECT_EQ(error.category(), ErrorCategory::kData);
    return error.what();
  }
  ADD_FAILURE() << "opened without an error";
  return "";
}

class ReferenceFiles : public ::testing::Test {
 protected:
  ReferenceFiles() {
    test::write_pairs(folder_ / "a");
    test::write_pairs(folder_ / "b");
  }
  std::unique_ptr<TokenStore> open(const char* name) const {
    return TokenStore::open(folder_ / name);
  }
  TemporaryFolder folder_;
};

TEST_F(ReferenceFiles, EachExampleHasTheValuesOfItsLabels) {
  const auto store = open("a");  // with 1, 2, 2, 2, 1 and 1 labels
  write_file(*store, 0);
  const ReferenceLogProbs reference(*store, kDigest, command);
  EXPECT_EQ(values_of(reference, 0), (std::vector<float>{0}));
  EXPECT_EQ(values_of(reference, 1), (std::vector<float>{1, 2}));
  EXPECT_EQ(values_of(reference, 5), (std::vector<float>{8}));
}

TEST_F(ReferenceFiles, EachStoreOfAJoinedOneHasItsOwnFile) {
  write_file(*open("a"), 0);
  write_file(*open("b"), 100);
  std::vector<StorePart> parts;
  parts.push_back({open("a"), 2.0});
  parts.push_back({open("b")});
  const auto joined = join_stores(std::move(parts));
  const ReferenceLogProbs reference(*joined, kDigest, command);
  EXPECT_EQ(values_of(reference, 1), (std::vector<float>{1, 2}));
  EXPECT_EQ(values_of(reference, 7), (std::vector<float>{1, 2})) << "of the second repeat";
  EXPECT_EQ(values_of(reference, 13), (std::vector<float>{101, 102}));
}

TEST_F(ReferenceFiles, AMissingFileIsNamedWithTheCommandThatMakesIt) {
  const auto store = open("a");
  const std::string error = error_of(*store);
  EXPECT_NE(error.find("log-probs-0123456789abcdef.safetensors does not exist"), std::string::npos)
      << error;
  EXPECT_NE(error.find("make " + store->folder()), std::string::npos) << error;
}

TEST_F(ReferenceFiles, AFileOfOtherDataIsRefused) {
  write_file(*open("a"), 0);
  test::write_rollouts(folder_ / "c");
  std::filesystem::copy(folder_ / "a/" + scores_name(kDigest), folder_ / "c");
  EXPECT_NE(error_of(*open("c")).find("of other data"), std::string::npos);
}

TEST_F(ReferenceFiles, AFileWithTooFewValuesIsRefused) {
  const auto store = open("a");
  write_file(*store, 0, /*num_missing=*/1);
  EXPECT_NE(error_of(*store).find("its offsets are not those of 6 examples"), std::string::npos);
}

}  // namespace
}  // namespace packtrain
