// Weights of mask bytes in token stores.
#include "framework/data/token_weights.h"

#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "framework/core/file.h"
#include "framework/data/token_store.h"
#include "tests/framework/data/small_stores.h"
#include "tests/helpers/temporary_folder.h"

namespace packtrain::token_weights_test {
namespace {

using test::copy;
using test::Ids;
using test::Mask;
using test::TemporaryFolder;
using test::write_store;
using test::write_weighted_store;

TEST(TokenStore, WeightsOfMaskBytesAreWrittenAndRead) {
  const TemporaryFolder folder;
  for (const std::int64_t max_shard_tokens : {1000, 1}) {
    const std::string path = folder / std::to_string(max_shard_tokens);
    write_weighted_store(path, {0, 1, 0.25, 0.5}, max_shard_tokens);
    const auto store = TokenStore::open(path);
    EXPECT_TRUE(store->has_token_weights());
    EXPECT_EQ(copy(store->token_weights(2)), (std::vector<double>{0, 1, 0.25, 0.5}));
    EXPECT_EQ(copy(store->num_loss_tokens()), (Ids{1, 0, 3})) << "bytes that are not 0";
    EXPECT_EQ(copy(store->loss_mask(2)), (Mask{0, 1, 3, 2}));
  }
}

TEST(TokenStore, AStoreWithoutWeightsHasNoTableAndRequiresNothing) {
  const TemporaryFolder folder;
  write_store(folder / "store");
  EXPECT_FALSE(TokenStore::open(folder / "store")->has_token_weights());
  const std::string text = read_text(folder / "store/store.json", ErrorCategory::kData);
  EXPECT_EQ(text.find("loss_weights"), std::string::npos);
  EXPECT_EQ(text.find("requires"), std::string::npos);
}

TEST(TokenStore, TheFingerprintChangesWithTheTableAndItsUse) {
  const TemporaryFolder folder;
  const auto print = [&](const std::string& name, std::vector<double> weights,
                         std::int64_t max_shard_tokens = 1000) {
    write_weighted_store(folder / name, std::move(weights), max_shard_tokens);
    return TokenStore::open(folder / name)->fingerprint();
  };
  const std::string first = print("a", {0, 1, 0.25, 0.5});
  EXPECT_EQ(print("b", {0, 1, 0.25, 0.5}, 1), first) << "whatever the shards";
  EXPECT_NE(print("c", {0, 1, 0.25, 0.75}), first);
  const auto writer =
      StoreWriter::create(folder / "d", TokenStore::open(folder / "a")->info(), false);
  writer->add(Ids{1, 2, 3}, Mask{1, 0, 1}, 0);
  writer->add(Ids{9}, Mask{1}, 1);
  writer->add(Ids{4, 5, 6, 0}, Mask{0, 1, 3, 3}, 1);
  writer->finish();
  EXPECT_NE(TokenStore::open(folder / "d")->fingerprint(), first);
}

TEST(TokenWeights, AreSummedByMaskByte) {
  const Mask mask{0, 1, 1, 2, 3, 3};
  EXPECT_EQ(sum_of_weights(mask, {}), 5.0);
  EXPECT_EQ(count_supervised(mask), 5);
  const std::vector<double> weights{0, 1, 0.25, 0.5};
  EXPECT_EQ(sum_of_weights(mask, weights), 3.25);
  EXPECT_EQ(sum_of_weights({}, weights), 0.0);
}

}  // namespace
}  // namespace packtrain::token_weights_test
