#include <gtest/gtest.h>

#include <filesystem>
#include <functional>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "framework/core/error.h"
#include "framework/core/file.h"
#include "framework/core/safetensors.h"
#include "framework/data/store_writer.h"
#include "framework/data/token_store.h"
#include "tests/framework/data/small_stores.h"
#include "tests/helpers/temporary_folder.h"

namespace packtrain::damaged_store_test {
namespace {

using test::error_of;
using test::TemporaryFolder;
using test::write_bytes;

using test::copy;
using test::expect_the_three_examples;
using test::Ids;
using test::Mask;
using test::two_sources;
using test::write_store;
using test::write_weighted_store;

// store.json as versions wrote it that had no digests.
void forget_optional_members(const std::string& folder) {
  const std::string path = folder + "/store.json";
  auto json = nlohmann::ordered_json::parse(read_text(path, ErrorCategory::kData));
  for (auto& shard : json["shards"]) {
    for (const char* key : {"lengths", "labels", "mask_bytes", "digest"}) shard.erase(key);
  }
  write_bytes(path, json.dump());
}

// The columns of a shard of three examples of 3, 1 and 4 tokens, for tests to damage.
struct Columns {
  Ids input_ids{1, 2, 3, 9, 4, 5, 6, 0};
  std::vector<std::int64_t> offsets{0, 3, 4, 8};
  Mask loss_mask{1, 0, 1, 1, 0, 1, 1, 1};
  Ids num_loss_tokens{1, 0, 3};
  std::vector<std::int16_t> source{0, 1, 1};

  void write(const std::string& path) const {
    const auto tensor = [](const char* name, DataType dtype, const auto& values) {
      return TensorToWrite{name, dtype, {std::ssize(values)}, std::as_bytes(std::span(values))};
    };
    write_safetensors(
        path,
        std::vector<TensorToWrite>{tensor("input_ids", DataType::kInt32, input_ids),
                                   tensor("offsets", DataType::kInt64, offsets),
                                   tensor("loss_mask", DataType::kUInt8, loss_mask),
                                   tensor("num_loss_tokens", DataType::kInt32, num_loss_tokens),
                                   tensor("source", DataType::kInt16, source)},
        {}, ErrorCategory::kData);
  }
};

void check_all_of(const std::string& folder) {
  TokenStore::open(folder)->check_all(0, 1);
}

std::string message_after(const std::function<void(Columns&)>& damage) {
  const TemporaryFolder folder;
  write_store(folder / "store");
  Columns columns;
  damage(columns);
  columns.write(folder / "store/part-00000.safetensors");
  const Error error = error_of([&] { check_all_of(folder / "store"); });
  EXPECT_EQ(error.category(), ErrorCategory::kData);
  const std::string place = folder / "store/part-00000.safetensors: ";
  EXPECT_TRUE(error.message().starts_with(place)) << error.what();
  return error.message().substr(std::min(place.size(), error.message().size()));
}

TEST(DamagedStore, UndamagedColumnsOpen) {
  const TemporaryFolder folder;
  write_store(folder / "store");
  Columns().write(folder / "store/part-00000.safetensors");
  expect_the_three_examples(*TokenStore::open(folder / "store"));
}

TEST(DamagedStore, IsOpenedAndRefusedWhereADamagedExampleIsUsed) {
  const TemporaryFolder folder;
  write_store(folder / "store");
  Columns columns;
  columns.input_ids[6] = 10;
  columns.write(folder / "store/part-00000.safetensors");
  const auto store = TokenStore::open(folder / "store");
  EXPECT_EQ(copy(store->lengths()), (Ids{3, 1, 4}));
  EXPECT_NO_THROW(store->check_tokens(0, 0, 3));
  EXPECT_NO_THROW(store->check_tokens(2, 0, 2)) << "a piece is checked by its own tokens";
  const Error error = error_of([&] { store->check_tokens(2, 1, 4); });
  EXPECT_EQ(error.category(), ErrorCategory::kData);
  EXPECT_EQ(error.message(), folder /
                                 "store/part-00000.safetensors: example 2, token 2: id 10 is "
                                 "outside the vocabulary 0..9");
  EXPECT_NE(error.advice().find("verify --data"), std::string::npos);
}

TEST(DamagedStore, OffsetsAndLabelsAreRefusedWhereTheyAreAskedFor) {
  const TemporaryFolder folder;
  write_store(folder / "store");
  Columns columns;
  columns.offsets[1] = 6;
  columns.num_loss_tokens[2] = -1;
  columns.write(folder / "store/part-00000.safetensors");
  for (const bool is_old : {false, true}) {
    if (is_old) forget_optional_members(folder / "store");
    const auto store = TokenStore::open(folder / "store");
    EXPECT_NE(error_of([&] { store->fingerprint(); }).message().find("has offsets"),
              std::string::npos);
    EXPECT_NE(
        error_of([&] { store->lengths()[1]; }).message().find("example 1 has offsets 6 and 4"),
        std::string::npos);
    EXPECT_NE(error_of([&] { store->num_loss_tokens()[2]; }).message().find("is -1, wanted 0.."),
              std::string::npos);
  }
}

TEST(DamagedStore, OtherTokensOfTheSameLengthsHaveAnotherDigest) {
  EXPECT_TRUE(message_after([](Columns& c) { c.input_ids[0] = 2; }).starts_with("its digest is "));
  const TemporaryFolder folder;
  write_store(folder / "a");
  write_store(folder / "b");
  EXPECT_EQ(TokenStore::open(folder / "a")->content_digest(),
            TokenStore::open(folder / "b")->content_digest());
  const auto writer = StoreWriter::create(folder / "c", two_sources(), false);
  writer->add(Ids{1, 2, 3}, Mask{1, 0, 1}, 0);
  writer->add(Ids{9}, Mask{1}, 1);
  writer->add(Ids{4, 5, 6, 1}, Mask{0, 1, 1, 1}, 1);
  writer->finish();
  const auto other = TokenStore::open(folder / "c");
  EXPECT_EQ(other->fingerprint(), TokenStore::open(folder / "a")->fingerprint());
  EXPECT_NE(other->content_digest(), TokenStore::open(folder / "a")->content_digest());
  forget_optional_members(folder / "a");
  EXPECT_EQ(TokenStore::open(folder / "a")->content_digest(), "");
  EXPECT_NO_THROW(check_all_of(folder / "a"));
}

TEST(DamagedStore, AWrongIdNamesItsExampleAndToken) {
  EXPECT_EQ(message_after([](Columns& c) { c.input_ids[6] = 10; }),
            "example 2, token 2: id 10 is outside the vocabulary 0..9");
  EXPECT_EQ(message_after([](Columns& c) { c.input_ids[3] = -7; }),
            "example 1, token 0: id -7 is outside the vocabulary 0..9");
}

TEST(DamagedStore, AWrongIdInALaterShardIsNamedByItsIndexInTheStore) {
  const TemporaryFolder folder;
  write_store(folder / "store", 4);  // examples 0 and 1, then 2
  Columns columns{{4, 5, 66, 0}, {0, 4}, {0, 1, 1, 1}, {3}, {1}};
  columns.write(folder / "store/part-00001.safetensors");
  const Error error = error_of([&] { check_all_of(folder / "store"); });
  EXPECT_NE(error.message().find("part-00001.safetensors: example 2, token 2: id 66"),
            std::string::npos)
      << error.what();
}

TEST(DamagedStore, WrongOffsetsAreNamed) {
  EXPECT_EQ(message_after([](Columns& c) { c.offsets[0] = 1; }), "offsets[0] is 1, wanted 0");
  EXPECT_EQ(message_after([](Columns& c) { c.offsets[2] = 3; }),
            "example 1 has offsets 3 and 3, wanted 1 to 4 tokens");
  EXPECT_EQ(message_after([](Columns& c) { c.offsets[1] = -5; }),
            "example 0 has offsets 0 and -5, wanted 1 to 4 tokens");
  EXPECT_EQ(message_after([](Columns& c) { c.offsets[2] = 1L << 40; }),
            "example 1 has offsets 3 and 1099511627776, wanted 1 to 4 tokens");
  EXPECT_EQ(message_after([](Columns& c) { c.offsets[3] = 9; }),
            "the last offset is 9, wanted num_tokens = 8");
}

TEST(DamagedStore, WrongMasksCountsAndSourcesAreNamed) {
  EXPECT_EQ(message_after([](Columns& c) { c.loss_mask[5] = 2; }),
            "example 2, token 1: loss_mask is 2, wanted 0 or 1");
  const TemporaryFolder folder;
  write_weighted_store(folder / "weighted", {0, 1, 0.25, 0.5});
  Columns columns;
  columns.loss_mask[5] = 4;
  columns.write(folder / "weighted/part-00000.safetensors");
  const std::string message = error_of([&] { check_all_of(folder / "weighted"); }).message();
  EXPECT_TRUE(message.ends_with("example 2, token 1: loss_mask is 4, wanted 0..3")) << message;
  EXPECT_EQ(message_after([](Columns& c) { c.num_loss_tokens[1] = 1; }),
            "example 1: num_loss_tokens is 1, but its mask has 0");
  EXPECT_EQ(message_after([](Columns& c) { c.source[1] = 2; }),
            "example 1: source is 2, wanted 0..1");
}

TEST(DamagedStore, AColumnOfAnotherLengthIsRefused) {
  const std::string message = message_after([](Columns& c) { c.input_ids.push_back(1); });
  EXPECT_NE(message.find("tensor 'input_ids' has 9 elements"), std::string::npos) << message;
}

TEST(DamagedStore, ATruncatedShardIsRefusedAtAnyLength) {
  const TemporaryFolder folder;
  write_store(folder / "store");
  const std::string path = folder / "store/part-00000.safetensors";
  const auto size = std::filesystem::file_size(path);
  for (const std::uintmax_t length :
       {size - 1, size - 8, size / 2, std::uintmax_t{9}, std::uintmax_t{0}}) {
    std::filesystem::resize_file(path, length);
    const Error error = error_of([&] { check_all_of(folder / "store"); });
    EXPECT_EQ(error.category(), ErrorCategory::kData) << length;
    EXPECT_TRUE(error.message().starts_with(path + ": ")) << error.what();
  }
  std::filesystem::remove(path);
  EXPECT_EQ(error_of([&] { TokenStore::open(folder / "store"); }).category(), ErrorCategory::kData);
}

#define WEIGHTS(list) "\"requires\": [\"loss_weights\"], \"loss_weights\": " list ", \"vocab_size\""

struct WrongManifest {
  const char* name;
  const char* find;  // in a good store.json
  const char* replace;
  const char* message;
};

class DamagedManifest : public ::testing::TestWithParam<WrongManifest> {};

TEST_P(DamagedManifest, IsRefusedWithAMessageThatSaysWhy) {
  const TemporaryFolder folder;
  write_store(folder / "store");
  const std::string path = folder / "store/store.json";
  std::string text = read_text(path, ErrorCategory::kData);
  const std::size_t at = text.find(GetParam().find);
  ASSERT_NE(at, std::string::npos) << text;
  text.replace(at, std::string(GetParam().find).size(), GetParam().replace);
  write_bytes(path, text);
  const Error error = error_of([&] { check_all_of(folder / "store"); });
  EXPECT_EQ(error.category(), ErrorCategory::kData);
  EXPECT_NE(error.message().find(GetParam().message), std::string::npos) << error.what();
}

const WrongManifest kWrongManifests[] = {
    {"requirement", "\"vocab_size\"", "\"requires\": [\"loss_weights\", \"audio\"], \"vocab_size\"",
     "needs 'audio', which this version does not know"},
    {"requirements", "\"vocab_size\"", "\"requires\": \"audio\", \"vocab_size\"",
     "'requires' is no list of texts"},
    {"weights_required", "\"vocab_size\"", "\"requires\": [\"loss_weights\"], \"vocab_size\"",
     "has no 'loss_weights', and 'requires' names 'loss_weights'"},
    {"weights_unnamed", "\"vocab_size\"", "\"loss_weights\": [0, 1, 0.5], \"vocab_size\"",
     "has 'loss_weights', and 'requires' does not name 'loss_weights'"},
    {"weights_of_bytes", "\"vocab_size\"", WEIGHTS("[0, 0.5]"),
     "'loss_weights' holds 0.5 for mask byte 1, wanted 1"},
    {"weight_above_1", "\"vocab_size\"", WEIGHTS("[0, 1, 0.5, 1.5]"),
     "'loss_weights' holds 1.5 for mask byte 3, wanted more than 0 and at most 1"},
    {"weight_0", "\"vocab_size\"", WEIGHTS("[0, 1, 0]"), "holds 0 for mask byte 2"},
    {"weight_text", "\"vocab_size\"", WEIGHTS("[0, 1, \"1\"]"),
     "holds something that is no number"},
    {"weights_few", "\"vocab_size\"", WEIGHTS("[0]"),
     "'loss_weights' holds 1 numbers, wanted 2..256"},
    {"no_json", "{", "[", "is no valid JSON at its byte"},
    {"key_twice", "\"vocab_size\"", "\"num_tokens\": 8, \"vocab_size\"", "'num_tokens' twice"},
    {"version", "\"format_version\": 1", "\"format_version\": 2", "has format version 2, wanted 1"},
    {"missing_key", "\"vocab_size\"", "\"vocabulary\"", "lacks the key 'vocab_size'"},
    {"wrong_type", "\"vocab_size\": 10", "\"vocab_size\": \"10\"", "'vocab_size' is \"10\""},
    {"negative", "\"vocab_size\": 10", "\"vocab_size\": -1", "'vocab_size' is -1"},
    {"vocabulary_too_large", "\"vocab_size\": 10", "\"vocab_size\": 3000000000", "at most"},
    {"smaller_vocabulary", "\"vocab_size\": 10", "\"vocab_size\": 9", "example 1, token 0: id 9"},
    {"path_in_shard", "part-00000", "../part-00000", "wanted 'part-00000.safetensors'"},
    {"path_in_tokenizer", "\"tokenizer\": \"\"", "\"tokenizer\": \"/etc\"", "'tokenizer' is"},
    {"total_examples", "\"num_examples\": 3", "\"num_examples\": 4", "wanted 4 and 8"},
    {"digest", "\"digest\": \"", "\"digest\": \"x", "'digest' of a shard is 'x"},
    {"length_bounds", "\"lengths\": [\n        1", "\"lengths\": [\n        9",
     "'lengths' of a shard is [9,4], wanted two counts from 1 on, the least first"},
    {"mask_bytes", "\"mask_bytes\": [\n        2", "\"mask_bytes\": [\n        1",
     "'mask_bytes' of a shard is [1,6], wanted counts that add up to its 8 tokens"},
    {"total_loss_tokens", "\"num_loss_tokens\": 4", "\"num_loss_tokens\": 5",
     "the examples have 4"},
    {"fewer_sources", "\"first\",", "", "source is 1, wanted 0..0"},
};

INSTANTIATE_TEST_SUITE_P(TokenStore, DamagedManifest, ::testing::ValuesIn(kWrongManifests),
                         [](const auto& info) { return std::string(info.param.name); });

TEST(TokenStore, KnowsTheBoundsOfItsCountsWhereItsFilesSayThem) {
  const TemporaryFolder folder;
  write_store(folder / "store", 1);
  const auto store = TokenStore::open(folder / "store");
  EXPECT_EQ(store->lengths().bounds(), (CountBounds{1, 4}));
  EXPECT_EQ(store->num_loss_tokens().bounds(), (CountBounds{0, 3}));
  forget_optional_members(folder / "store");
  EXPECT_EQ(TokenStore::open(folder / "store")->lengths().bounds(), std::nullopt);
}

}  // namespace
}  // namespace packtrain::damaged_store_test
