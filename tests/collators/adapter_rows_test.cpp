// Batches of several adapters: rows by adapter, and the weights and random bits of their own runs.
#include <gtest/gtest.h>

#include <vector>

#include "collators/flattening.h"
#include "tests/collators/pieces.h"

namespace packtrain::test {
namespace {

constexpr std::int64_t kFirst = 2;  // examples of the first adapter
using Rows = std::vector<std::int32_t>;

// Two adapters: examples 0 and 1, then 2 and 3. The third of three has no step.
LossNormalization normalization() {
  StepPart first{0, {.loss_token_weight = 10}};
  StepPart second{kFirst, {.loss_token_weight = 20}};
  return {Normalize::kTokens, 30, {first, second, {4, {}}}};
}

TEST(AdapterRows, AreTheRowsOfEachAdaptersExamples) {
  const MemoryStore store = store_of({5, 7, 4, 9});
  const PackedBatch batch = flatten(store, whole(store), normalization());
  EXPECT_EQ(values(batch.adapter_rows), (Rows{0, 12, 25, 25}));
  EXPECT_EQ(values(batch.adapter_loss_rows), (Rows{0, 10, 21, 21}));
}

TEST(AdapterRows, OfAnAdapterWithoutExamplesAreNone) {
  const MemoryStore store = store_of({5, 7, 4, 9});
  const PackedBatch batch = flatten(store, {piece(3, 0, 9)}, normalization());
  EXPECT_EQ(values(batch.adapter_rows), (Rows{0, 0, 9, 9}));
  const PackedBatch empty = flatten(store, {}, normalization());
  EXPECT_EQ(values(empty.adapter_rows), (Rows{0, 0, 0, 0}));
}

TEST(AdapterRows, AreNotWrittenForOneAdapter) {
  const MemoryStore store = store_of({5, 7});
  EXPECT_TRUE(flatten(store, whole(store), {}).adapter_rows.empty());
}

TEST(AdapterRows, HaveTheWeightsOfTheirOwnStep) {
  const MemoryStore store = store_of({5, 7, 4, 9});
  const PackedBatch batch = flatten(store, whole(store), normalization());
  EXPECT_EQ(batch.loss_weight.front(), 1.0F / 10);
  EXPECT_EQ(batch.loss_weight.back(), 1.0F / 20);
}

TEST(AdapterRows, HaveTheRandomBitsOfTheirOwnStore) {
  const MemoryStore all = store_of({5, 7, 4, 9});
  const MemoryStore own = store_of({4, 9});
  CollatorOptions options;
  options.row_seeds = CounterRandom(3, "dropout", 1);
  const PackedBatch joined = flatten(all, whole(all), normalization(), options);
  const PackedBatch alone = flatten(own, whole(own), {}, options);
  EXPECT_EQ(values(joined.row_seeds.subspan(12, 13)), values(alone.row_seeds.first(13)));
}

}  // namespace
}  // namespace packtrain::test
