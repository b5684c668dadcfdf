#include <gtest/gtest.h>

#include <array>
#include <filesystem>
#include <span>
#include <string>

#include "framework/core/error.h"
#include "framework/core/hash.h"
#include "framework/data/store_writer.h"
#include "framework/data/token_store.h"
#include "tests/framework/data/small_stores.h"
#include "tests/helpers/temporary_folder.h"

namespace packtrain::store_test {
namespace {

using test::error_of;
using test::TemporaryFolder;
using test::write_bytes;

using test::expect_the_three_examples;
using test::Ids;
using test::Mask;
using test::two_sources;
using test::write_store;

TEST(TokenStore, WhatIsWrittenIsRead) {
  const TemporaryFolder folder;
  const StoreInfo written = write_store(folder / "store");
  EXPECT_EQ(written.num_loss_tokens, 4) << "the first token of an example never counts";
  const auto store = TokenStore::open(folder / "store");
  EXPECT_EQ(store->info().num_examples, 3);
  EXPECT_EQ(store->info().num_tokens, 8);
  EXPECT_EQ(store->info().num_loss_tokens, 4);
  EXPECT_EQ(store->info().vocab_size, 10);
  EXPECT_EQ(store->info().sources, two_sources().sources);
  expect_the_three_examples(*store);
}

TEST(TokenStore, ReadsTheSameFromManyShardsAsFromOne) {
  const TemporaryFolder folder;
  write_store(folder / "one");
  write_store(folder / "many", 1);
  EXPECT_TRUE(std::filesystem::exists(folder / "many/part-00002.safetensors"));
  const auto one = TokenStore::open(folder / "one");
  const auto many = TokenStore::open(folder / "many");
  expect_the_three_examples(*many);
  EXPECT_EQ(one->fingerprint(), many->fingerprint());
}

TEST(TokenStore, FingerprintChangesWithALength) {
  const TemporaryFolder folder;
  write_store(folder / "a");
  const auto writer = StoreWriter::create(folder / "b", two_sources(), false);
  writer->add(Ids{1, 2}, Mask{1, 1}, 0);
  writer->add(Ids{9, 8}, Mask{1, 0}, 1);
  writer->add(Ids{4, 5, 6, 0}, Mask{0, 1, 1, 1}, 1);
  writer->finish();
  EXPECT_NE(TokenStore::open(folder / "a")->fingerprint(),
            TokenStore::open(folder / "b")->fingerprint());
}

// Checkpoints hold it: counts, then all lengths, as one run of bytes.
TEST(TokenStore, FingerprintIsTheHashOfCountsAndLengths) {
  constexpr std::int64_t kNumExamples = 9'000;
  const TemporaryFolder folder;
  const auto writer = StoreWriter::create(folder / "store", two_sources(), false, 20'000);
  Ids lengths;
  for (std::int32_t i = 0; i < kNumExamples; ++i) {
    const auto length = static_cast<std::size_t>(1 + i * 7 % 11);
    writer->add(Ids(length, 3), Mask(length, 1), 0);
    lengths.push_back(static_cast<std::int32_t>(length));
  }
  const StoreInfo info = writer->finish();
  Hasher hasher;
  const std::array counts{info.vocab_size, info.num_examples, info.num_tokens,
                          info.num_loss_tokens};
  hasher.update(std::as_bytes(std::span(counts)));
  hasher.update(std::as_bytes(std::span(lengths)));
  EXPECT_EQ(TokenStore::open(folder / "store")->fingerprint(), hasher.hex());
}

TEST(TokenStore, AFingerprintThatIsKeptNeedsNoFile) {
  const TemporaryFolder folder;
  write_store(folder / "store");
  const auto store = TokenStore::open(folder / "store");
  store->keep_fingerprint("as another process found");
  std::filesystem::remove(folder / "store/part-00000.safetensors");
  EXPECT_EQ(store->fingerprint(), "as another process found");
}

TEST(TokenStore, AskingForAnExampleThatIsNotThereIsAnError) {
  const TemporaryFolder folder;
  write_store(folder / "store");
  const auto store = TokenStore::open(folder / "store");
  EXPECT_EQ(error_of([&] { store->input_ids(3); }).category(), ErrorCategory::kInternal);
  EXPECT_EQ(error_of([&] { store->loss_mask(-1); }).category(), ErrorCategory::kInternal);
}

TEST(TokenStore, APathThatDoesNotExistIsNamedSo) {
  const TemporaryFolder folder;
  const Error error = error_of([&] { TokenStore::open(folder / "store"); });
  EXPECT_EQ(error.category(), ErrorCategory::kData);
  EXPECT_EQ(error.message(), folder / "store: there is no such token store, folder or file");
}

TEST(TokenStore, AStoreThatWasNotFinishedIsNoStore) {
  const TemporaryFolder folder;
  {
    const auto writer = StoreWriter::create(folder / "store", two_sources(), false, 1);
    writer->add(Ids{1, 2}, Mask{1, 1}, 0);
  }
  const Error error = error_of([&] { TokenStore::open(folder / "store"); });
  EXPECT_EQ(error.category(), ErrorCategory::kData);
  EXPECT_EQ(error.message(), folder / "store: is no token store: it has no store.json");
  EXPECT_EQ(error.advice(), "Give a folder that `packtrain prepare` finished.");
  write_bytes(folder / "store/unfinished.json", "{}");
  EXPECT_EQ(error_of([&] { TokenStore::open(folder / "store"); }).advice(),
            "`packtrain prepare` was stopped: the same command again finishes it.");
}

TEST(StoreWriter, RefusesAFolderInUseAndReplacesAStoreOnRequest) {
  const TemporaryFolder folder;
  write_store(folder / "store", 1);
  const auto create = [&](bool overwrite) {
    return StoreWriter::create(folder / "store", two_sources(), overwrite);
  };
  EXPECT_NE(error_of([&] { create(false); }).message().find("is not empty"), std::string::npos);
  const auto writer = create(true);
  writer->add(Ids{7, 7}, Mask{1, 1}, 0);
  writer->finish();
  EXPECT_EQ(TokenStore::open(folder / "store")->info().num_examples, 1);
  EXPECT_FALSE(std::filesystem::exists(folder / "store/part-00001.safetensors"));
}

TEST(StoreWriter, NeverRemovesWhatIsNoPartOfAStore) {
  const TemporaryFolder folder;
  write_store(folder / "store");
  write_bytes(folder / "store/thesis.txt", "years of work");
  const Error error = error_of([&] { StoreWriter::create(folder / "store", two_sources(), true); });
  EXPECT_NE(error.message().find("thesis.txt"), std::string::npos) << error.what();
  EXPECT_EQ(TokenStore::open(folder / "store")->info().num_examples, 3);
}

TEST(StoreWriter, RefusesWrongExamplesAndNamesThePlace) {
  const TemporaryFolder folder;
  const auto writer = StoreWriter::create(folder / "store", two_sources(), false);
  writer->add(Ids{1}, Mask{1}, 0);
  const auto message = [&](const Ids& ids, const Mask& mask, std::int16_t source) {
    const Error error = error_of([&] { writer->add(ids, mask, source); });
    EXPECT_EQ(error.category(), ErrorCategory::kData);
    return error.message();
  };
  const std::string place = folder / "store: example 1: ";
  EXPECT_EQ(message({1, 10}, {1, 1}, 0), place + "token 1: id 10 is outside the vocabulary 0..9");
  EXPECT_EQ(message({-1}, {1}, 0), place + "token 0: id -1 is outside the vocabulary 0..9");
  EXPECT_EQ(message({1}, {1, 1}, 0), place + "has 1 tokens, but a mask of 2");
  EXPECT_EQ(message({1}, {2}, 0), place + "token 0: loss_mask is 2, wanted 0 or 1");
  EXPECT_EQ(message({1}, {1}, 2), place + "source is 2, wanted 0..1");
  StoreInfo weighted = two_sources();
  weighted.loss_weights = {0, 1, 0.5};
  const auto other = StoreWriter::create(folder / "weighted", weighted, false);
  EXPECT_EQ(error_of([&] { other->add(Ids{1}, Mask{3}, 0); }).message(),
            folder / "weighted: example 0: token 0: loss_mask is 3, wanted 0..2");
  EXPECT_EQ(message({}, {}, 0), place + "has 0 tokens, wanted 1..2147483647");
}

TEST(StoreWriter, RefusesToFinishWithoutAnExample) {
  const TemporaryFolder folder;
  const auto writer = StoreWriter::create(folder / "store", two_sources(), false);
  EXPECT_EQ(error_of([&] { writer->finish(); }).category(), ErrorCategory::kData);
}

TEST(TokenStore, MapsAShardWhenItIsUsed) {
  const TemporaryFolder folder;
  write_store(folder / "store", 4);  // examples 0 and 1, then 2
  const auto store = TokenStore::open(folder / "store");
  write_bytes(folder / "store/part-00001.safetensors", std::string(200, 'x'));
  EXPECT_EQ(store->lengths()[1], 1);
  EXPECT_EQ(error_of([&] { store->input_ids(2); }).category(), ErrorCategory::kData);
}

}  // namespace
}  // namespace packtrain::store_test
