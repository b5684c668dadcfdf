// The traits of strategies in framework/config agree with what samplers/strategies does.
#include "framework/config/strategy.h"

#include <gtest/gtest.h>

#include <cstddef>

#include "samplers/batches/packs.h"
#include "samplers/batches/rows.h"
#include "samplers/batches/whole_examples.h"
#include "samplers/strategies/strategy.h"

namespace packtrain::strategy_traits_test {
namespace {

TEST(StrategyTraits, HaveTheirStrategyAtItsIndex) {
  for (std::size_t s = 0; s < kStrategyTraits.size(); ++s) {
    EXPECT_EQ(static_cast<std::size_t>(kStrategyTraits[s].strategy), s);
    EXPECT_EQ(&traits_of(kStrategyTraits[s].strategy), &kStrategyTraits[s]);
  }
}

TEST(StrategyTraits, AgreeWithTheBatchesOfEachStrategy) {
  for (const StrategyTraits& traits : kStrategyTraits) {
    const auto make_batches = find_strategy(traits.strategy).make_batches;
    EXPECT_EQ(traits.makes_own_steps, make_batches != make_whole_example_batches) << traits.name;
    EXPECT_EQ(traits.has_rows, make_batches == make_rows) << traits.name;
    EXPECT_EQ(traits.has_packs, make_batches == make_packs) << traits.name;
  }
}

}  // namespace
}  // namespace packtrain::strategy_traits_test
