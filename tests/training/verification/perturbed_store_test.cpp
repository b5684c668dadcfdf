// Tests which tokens the contamination detector changes.
#include "training/verification/perturbed_store.h"

#include <gtest/gtest.h>

#include <algorithm>

#include "tests/collators/pieces.h"

namespace packtrain::test {
namespace {

TEST(PerturbedStore, ChangesEveryTokenOfOneExampleAndNothingElse) {
  constexpr std::int64_t kVocabSize = 300;
  const MemoryStore store = store_of({50, 40, 30});
  const PerturbedStore perturbed(store, 1, kVocabSize);
  for (const std::int64_t example : {0, 2}) {
    EXPECT_TRUE(std::ranges::equal(perturbed.input_ids(example), store.input_ids(example)));
  }
  const auto before = store.input_ids(1);
  const auto after = perturbed.input_ids(1);
  ASSERT_EQ(after.size(), before.size());
  for (std::size_t t = 0; t < before.size(); ++t) {
    EXPECT_NE(after[t], before[t]) << "token " << t;
    EXPECT_GE(after[t], 0);
    EXPECT_LT(after[t], kVocabSize);
  }
  EXPECT_TRUE(std::ranges::equal(perturbed.loss_mask(1), store.loss_mask(1)));
  EXPECT_TRUE(std::ranges::equal(perturbed.lengths(), store.lengths()));
}

}  // namespace
}  // namespace packtrain::test
