// Where the optimizer's state has the values of a rank's elements.
#include "parallel/sharding/state_layout.h"

#include <ATen/ops/arange.h>
#include <gtest/gtest.h>

#include <array>

#include "framework/core/error.h"
#include "parallel/sharding/flat_layout.h"

namespace packtrain {
namespace {

// "first" is of all elements, "second" of those of number 1.
const std::vector<OptimizerStateSpec> kSpecs = {{"first"}, {.name = "second", .optimizers = {1}}};
constexpr std::array kRanges = {StateRange{10, 1}, StateRange{6, 0}, StateRange{4, 1},
                                StateRange{5, 0}};

std::vector<OptimizerTensor> numbered(const StateLayout& layout) {
  std::vector<OptimizerTensor> state;
  for (std::size_t s = 0; s < layout.specs().size(); ++s) {
    state.push_back({layout.specs()[s].name, at::arange(layout.num_values(s), at::kFloat)});
  }
  return state;
}

TEST(StateLayout, HasValuesForTheElementsThatNeedThemAlone) {
  const StateLayout layout(kSpecs, kRanges);
  EXPECT_EQ(layout.num_values(0), 25);
  EXPECT_EQ(layout.num_values(1), 14);
  EXPECT_EQ(layout.num_bytes(), (25 + 14) * 4);
}

TEST(StateLayout, ViewsOfARangeAreWhereItsValuesAre) {
  const StateLayout layout(kSpecs, kRanges);
  const std::vector<OptimizerTensor> state = numbered(layout);
  const auto part = layout.narrow(state, 17, 3);
  ASSERT_EQ(part.size(), 2U);
  EXPECT_TRUE(part[0].values.equal(at::arange(17, 20, at::kFloat)));
  EXPECT_TRUE(part[1].values.equal(at::arange(11, 14, at::kFloat)));
}

TEST(StateLayout, LeavesTensorsWithoutValuesOut) {
  const StateLayout layout(kSpecs, kRanges);
  const auto part = layout.narrow(numbered(layout), 11, 4);
  ASSERT_EQ(part.size(), 1U);
  EXPECT_EQ(part[0].name, "first");
}

TEST(StateLayout, ARangeOfSeveralNumbersHasTheValuesOfEach) {
  const StateLayout layout(kSpecs, kRanges);
  const auto all = layout.narrow(numbered(layout), 0, 25);
  EXPECT_EQ(all[0].values.numel(), 25);
  EXPECT_EQ(all[1].values.numel(), 14);
  const auto middle = layout.narrow(numbered(layout), 8, 10);
  EXPECT_TRUE(middle[1].values.equal(at::arange(8, 12, at::kFloat)));
}

TEST(StateLayout, ABlockOfElementsHasOneValue) {
  const std::vector<OptimizerStateSpec> specs = {
      {.name = "blocks", .granularity = StateGranularity::kBlock, .optimizers = {1}}};
  const std::array ranges = {StateRange{1024, 1}, StateRange{512, 0}, StateRange{1536, 1}};
  const StateLayout layout(specs, ranges);
  EXPECT_EQ(layout.num_values(0), 4 + 6);
  const auto first = layout.narrow(numbered(layout), 256, 500);
  ASSERT_EQ(first.size(), 1U);
  EXPECT_EQ(first[0].elements_per_value, 256);
  EXPECT_TRUE(first[0].values.equal(at::arange(1, 3, at::kFloat)));
  const auto second = layout.narrow(numbered(layout), 1536 + 256, 1);
  EXPECT_TRUE(second[0].values.equal(at::arange(5, 6, at::kFloat)));
  EXPECT_EQ(layout.narrow(numbered(layout), 0, 1024)[0].values.numel(), 4);
  EXPECT_EQ(layout.narrow(numbered(layout), 1536, 1536)[0].values.numel(), 6);
}

TEST(StateLayout, RefusesRangesWhoseBlocksAreNoWholeWords) {
  const std::vector<OptimizerStateSpec> specs = {
      {.name = "blocks", .granularity = StateGranularity::kBlock}};
  EXPECT_THROW(StateLayout(specs, std::array{StateRange{768, 0}}), Error);
}

TEST(StateLayout, NoRankCutsABlockOfAParameter) {
  const std::vector<ParameterSpec> specs = {{.name = "a", .shape = {1000, 7}, .block_state = true},
                                            {.name = "b", .shape = {300}},
                                            {.name = "c", .shape = {333, 3}, .block_state = true}};
  for (const int ranks : {1, 2, 3, 7}) {
    const FlatLayout layout = make_flat_layout(specs, ranks);
    for (const Segment& segment : layout.segments) {
      for (int rank = 0; rank < ranks; ++rank) {
        const OwnedRange owned = owned_range(layout, segment, rank);
        if (owned.numel == 0) continue;
        EXPECT_EQ(owned.parameter_begin % kStateBlock, 0) << segment.spec.name;
        EXPECT_EQ(owned.shard_begin % kStateBlock, 0) << segment.spec.name;
      }
    }
  }
}

}  // namespace
}  // namespace packtrain
