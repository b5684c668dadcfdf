// Tests the kernels for short sequences, and the division of a batch between them and cuDNN.
#include <ATen/ops/equal.h>
#include <ATen/ops/full.h>
#include <ATen/ops/randn.h>
#include <gtest/gtest.h>

#include <array>
#include <cstdlib>
#include <limits>
#include <numeric>
#include <string>

#include "models/ops/attention/cudnn/attention.h"
#include "models/ops/attention/short/attention.h"
#include "models/ops/attention/short/division.h"
#include "models/ops/attention/short/units.h"
#include "tests/models/batches.h"
#include "tests/models/cases.h"
#include "tests/models/ops/attention_reference.h"

namespace packtrain::attention_short_test {
namespace {

using Lengths = std::vector<std::int32_t>;

constexpr std::int64_t kAll = std::numeric_limits<std::int32_t>::max();

Lengths boundaries(const Lengths& lengths) {
  Lengths begins = {0};
  std::partial_sum(lengths.begin(), lengths.end(), std::back_inserter(begins));
  return begins;
}

TEST(AttentionUnits, HaveEachSequenceOnce) {
  const Lengths lengths = {5, 1, 300, 128, 129, 60, 60, 60, 1, 1000};
  const Lengths begins = boundaries(lengths);
  for (const std::int64_t max_keys : {0, 64, 128, 300, 2000}) {
    const AttentionUnits units = attention_units(begins, begins, max_keys);
    std::vector<int> seen(lengths.size(), 0);
    for (const AttentionUnit& unit : units.units) {
      EXPECT_EQ(unit.first_query, begins[static_cast<std::size_t>(unit.first_sequence)]);
      std::int32_t rows = 0;
      for (std::int32_t i = 0; i < unit.num_sequences; ++i) {
        const auto sequence = static_cast<std::size_t>(unit.first_sequence + i);
        ++seen[sequence];
        rows += lengths[sequence];
        EXPECT_LE(lengths[sequence], max_keys);
      }
      EXPECT_EQ(unit.num_queries, rows);
      EXPECT_EQ(unit.num_keys, rows);
      EXPECT_TRUE(unit.num_sequences == 1 || rows <= kUnitKeys);
    }
    for (const std::int32_t sequence : units.long_sequences) {
      ++seen[static_cast<std::size_t>(sequence)];
      EXPECT_GT(lengths[static_cast<std::size_t>(sequence)], max_keys);
    }
    EXPECT_EQ(seen, std::vector<int>(lengths.size(), 1)) << max_keys;
  }
}

TEST(AttentionUnits, BeginWithTheMostWork) {
  const Lengths begins = boundaries({1, 500, 20, 300, 128});
  const AttentionUnits units = attention_units(begins, begins, kAll);
  Lengths keys;
  for (const AttentionUnit& unit : units.units) keys.push_back(unit.num_keys);
  EXPECT_EQ(keys, (Lengths{500, 300, 128, 1, 20}));
}

TEST(AttentionUnits, ShareNoTileOfTheWorkspace) {
  const Lengths begins = boundaries({129, 500, 20, 300, 128});
  const AttentionUnits units = attention_units(begins, begins, kAll);
  Lengths first_tiles;
  for (const AttentionUnit& unit : units.units) {
    if (unit.num_keys > kUnitKeys) first_tiles.push_back(unit.first_tile);
  }
  EXPECT_EQ(first_tiles, (Lengths{0, 8, 13}));
  EXPECT_EQ(units.num_tiles, 16);
}

TEST(AttentionUnits, KeepASequenceWithAPrefixAlone) {
  const AttentionUnits units =
      attention_units(Lengths{0, 10, 20, 30}, Lengths{0, 10, 25, 35}, kAll);
  for (const AttentionUnit& unit : units.units) EXPECT_EQ(unit.num_sequences, 1);
}

std::int64_t limit_of(const Lengths& lengths, const AttentionShape& shape) {
  const Lengths begins = boundaries(lengths);
  constexpr int kMultiprocessors = 132;
  return choose_short_limit(begins, begins, shape, kMultiprocessors, /*has_hopper=*/true);
}

TEST(ShortLimit, TakesAllOfManyShortSequences) {
  EXPECT_GE(limit_of(Lengths(128, 128), {32, 8, 128}), 128);
  EXPECT_GE(limit_of(Lengths(2000, 1), {32, 8, 128}), 128);
}

TEST(ShortLimit, LeavesOneLongSequenceToCudnn) {
  EXPECT_EQ(limit_of({16384}, {32, 8, 128}), 0);
  EXPECT_EQ(limit_of(Lengths(8, 2048), {32, 8, 128}), 0);
}

// One block of threads has all tiles of a sequence and of a key head.
TEST(ShortLimit, IsLowerWhereBlocksAreFew) {
  Lengths lengths(60, 100);
  lengths.push_back(1000);
  EXPECT_LT(limit_of(lengths, {14, 2, 64}), 1000);
}

TEST(ShortLimit, IsNoneWhereOnlyTheDeviceHasBoundaries) {
  DeviceBatch batch;
  EXPECT_EQ(short_limit(batch, {32, 8, 128}), 0);
}

// On the GPU where PACKTRAIN_TEST_DEVICE says cuda, else skipped.
class ShortAttention : public testing::Test {
 protected:
  void SetUp() override {
    const char* wanted = std::getenv("PACKTRAIN_TEST_DEVICE");
    if (wanted == nullptr || std::string(wanted) != "cuda") GTEST_SKIP() << "needs a GPU";
  }

  at::Tensor random(at::IntArrayRef sizes) const { return at::randn(sizes, on_.options()); }

  AttentionResult run(std::int64_t max_keys, const at::Tensor& qkv, const at::Tensor& grad,
                      const AttentionShape& shape, DeviceBatch& batch) const {
    const AttentionOutput out = attention_forward(qkv, shape, batch);
    poison_free_memory(on_);
    const HeadGradients in_grad =
        divided_backward(max_keys, grad, qkv, out.y, out.saved, shape, batch, {});
    return {out.y.view(in_grad.query.sizes()), in_grad.query, in_grad.key, in_grad.value};
  }

  void expect_formula(const Lengths& lengths, const AttentionShape& shape,
                      std::int64_t max_keys) const {
    DeviceBatch batch = random_batch(lengths, 50, on_.device);
    const std::int64_t rows = batch.cu_seqlens_host.back();
    const at::Tensor qkv = random({rows, shape.num_heads + 2 * shape.num_kv_heads, shape.head_dim});
    const at::Tensor grad = random({rows, shape.num_heads * shape.head_dim});
    expect_close_by_rows(run(max_keys, qkv, grad, shape, batch),
                         attention_formula(qkv, grad, shape, lengths), on_.tolerance,
                         std::to_string(lengths.size()) + " sequences, head_dim " +
                             std::to_string(shape.head_dim) + ", window " +
                             std::to_string(shape.pattern.window));
  }

  const OperatorCase on_ = {at::Device(at::kCUDA, 0), at::kBFloat16, 2e-2};
};

// Heads of 96 have the portable kernel everywhere.
constexpr std::int64_t kHeadSizes[] = {64, 96, 128};

const Lengths kMixed = {700, 3, 64, 1, 129, 500, 128, 17, 90, 31, 256, 1, 1, 127};

TEST_F(ShortAttention, IsTheFormulaForEachHeadSize) {
  for (const std::int64_t head_dim : kHeadSizes) {
    for (const auto& [heads, kv_heads] : {std::pair{4, 1}, {6, 2}, {3, 3}}) {
      expect_formula(kMixed, {heads, kv_heads, head_dim}, kAll);
    }
  }
}

TEST_F(ShortAttention, IsTheFormulaForEachLength) {
  for (const std::int32_t length : {1, 15, 16, 17, 63, 64, 65, 127, 128, 129, 192, 255, 256, 257}) {
    for (const std::int64_t head_dim : kHeadSizes) {
      expect_formula({length}, {4, 2, head_dim}, kAll);
      expect_formula({length, length}, {4, 2, head_dim}, kAll);
    }
  }
}

TEST_F(ShortAttention, IsTheFormulaForManySequencesOfOneToken) {
  expect_formula(Lengths(2000, 1), {4, 2, 64}, kAll);
}

TEST_F(ShortAttention, KeepsWindows) {
  for (const std::int64_t window : {1, 16, 100, 129, 300}) {
    for (const std::int64_t head_dim : kHeadSizes) {
      expect_formula(kMixed, {4, 2, head_dim, 0, {window}}, kAll);
    }
  }
}

TEST_F(ShortAttention, DividesTheBatchWithCudnn) {
  for (const std::int64_t max_keys : {1, 64, 128, 300}) {
    expect_formula(kMixed, {4, 2, 128}, max_keys);
    expect_formula(kMixed, {4, 2, 64, 0, {100}}, max_keys);
  }
}

TEST_F(ShortAttention, ServesPrefixes) {
  const std::vector<SegmentPart> parts = {{300}, {40, {{0, 300}}}, {130, {{0, 300}}}, {7},
                                          {64},  {1, {{347, 411}}}};
  DeviceBatch batch = segment_batch(parts, on_.device);
  const std::int64_t rows = batch.cu_seqlens_host.back();
  for (const std::int64_t head_dim : kHeadSizes) {
    for (const std::int64_t window : {0, 50, 200}) {
      const AttentionShape shape = {4, 2, head_dim, 0, {window}};
      const at::Tensor qkv = random({rows, 8, head_dim});
      const at::Tensor grad = random({rows, 4 * head_dim});
      const AttentionResult want = attention_formula(qkv, grad, shape, batch.segments());
      for (const std::int64_t max_keys : {std::int64_t{128}, kAll}) {
        expect_close_by_rows(run(max_keys, qkv, grad, shape, batch), want, on_.tolerance,
                             std::to_string(head_dim) + ", window " + std::to_string(window));
      }
    }
  }
}

TEST_F(ShortAttention, IsBitEqualAcrossRuns) {
  const AttentionShape shape = {8, 2, 128};
  DeviceBatch batch = random_batch(kMixed, 50, on_.device);
  const at::Tensor qkv = random({batch.cu_seqlens_host.back(), 12, 128});
  const at::Tensor grad = random({batch.cu_seqlens_host.back(), 8 * 128});
  const AttentionOutput out = attention_forward(qkv, shape, batch);
  const auto backward = [&] {
    return divided_backward(kAll, grad, qkv, out.y, out.saved, shape, batch, {});
  };
  const HeadGradients first = backward();
  for (int i = 0; i < 3; ++i) {
    const HeadGradients again = backward();
    EXPECT_TRUE(at::equal(first.query, again.query));
    EXPECT_TRUE(at::equal(first.key, again.key));
    EXPECT_TRUE(at::equal(first.value, again.value));
  }
}

TEST_F(ShortAttention, SeesNoOtherSequence) {
  const AttentionShape shape = {4, 2, 128};
  const Lengths lengths = {40, 50, 20, 200, 100};
  DeviceBatch batch = random_batch(lengths, 50, on_.device);
  const at::Tensor qkv = random({410, 8, 128});
  const at::Tensor grad = random({410, 4 * 128});
  const AttentionResult want = run(kAll, qkv, grad, shape, batch);
  qkv.narrow(0, 40, 50).fill_(1e4);
  grad.narrow(0, 40, 50).fill_(1e4);
  const AttentionResult changed = run(kAll, qkv, grad, shape, batch);
  for (const auto& [begin, count] : {std::pair{0, 40}, {90, 320}}) {
    EXPECT_TRUE(
        at::equal(changed.query.narrow(0, begin, count), want.query.narrow(0, begin, count)));
    EXPECT_TRUE(at::equal(changed.key.narrow(0, begin, count), want.key.narrow(0, begin, count)));
    EXPECT_TRUE(
        at::equal(changed.value.narrow(0, begin, count), want.value.narrow(0, begin, count)));
  }
}

}  // namespace
}  // namespace packtrain::attention_short_test
