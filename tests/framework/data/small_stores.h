// Small token stores that tests write and read.
#pragma once

#include <gtest/gtest.h>

#include <cstdint>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "framework/data/store_writer.h"
#include "framework/data/token_store.h"

namespace packtrain::test {

using Ids = std::vector<std::int32_t>;
using Mask = std::vector<std::uint8_t>;

inline StoreInfo two_sources() {
  StoreInfo info;
  info.vocab_size = 10;
  info.sources = {"first", "second"};
  return info;
}

// Three examples of 3, 1 and 4 tokens.
inline StoreInfo write_store(const std::string& folder, std::int64_t max_shard_tokens = 1000) {
  const auto writer = StoreWriter::create(folder, two_sources(), false, max_shard_tokens);
  writer->add(Ids{1, 2, 3}, Mask{1, 0, 1}, 0);
  writer->add(Ids{9}, Mask{1}, 1);
  writer->add(Ids{4, 5, 6, 0}, Mask{0, 1, 1, 1}, 1);
  return writer->finish();
}

// The third example's tokens weigh 1, 0.5 and 0.25.
inline StoreInfo write_weighted_store(const std::string& folder, std::vector<double> weights,
                                      std::int64_t max_shard_tokens = 1000) {
  StoreInfo info = two_sources();
  info.loss_weights = std::move(weights);
  const auto writer = StoreWriter::create(folder, info, false, max_shard_tokens);
  writer->add(Ids{1, 2, 3}, Mask{1, 0, 1}, 0);
  writer->add(Ids{9}, Mask{1}, 1);
  writer->add(Ids{4, 5, 6, 0}, Mask{0, 1, 3, 2}, 1);
  return writer->finish();
}

template <typename T>
std::vector<T> copy(std::span<const T> values) {
  return {values.begin(), values.end()};
}

inline Ids copy(const ExampleCounts& counts) {
  return {counts.begin(), counts.end()};
}

// Expects the examples that write_store() writes.
inline void expect_the_three_examples(const TokenStore& store) {
  EXPECT_EQ(copy(store.lengths()), (Ids{3, 1, 4}));
  EXPECT_EQ(copy(store.num_loss_tokens()), (Ids{1, 0, 3}));
  EXPECT_EQ(copy(store.input_ids(0)), (Ids{1, 2, 3}));
  EXPECT_EQ(copy(store.input_ids(1)), (Ids{9}));
  EXPECT_EQ(copy(store.input_ids(2)), (Ids{4, 5, 6, 0}));
  EXPECT_EQ(copy(store.loss_mask(0)), (Mask{1, 0, 1}));
  EXPECT_EQ(copy(store.loss_mask(2)), (Mask{0, 1, 1, 1}));
  EXPECT_EQ(store.source(0), 0);
  EXPECT_EQ(store.source(2), 1);
}

}  // namespace packtrain::test
