// Smaller micro-batches recompute in fewer layers, and need no more memory than the largest.
#include "training/setup/adaptive_recompute.h"

#include <gtest/gtest.h>

#include <algorithm>

#include "framework/config/recompute.h"
#include "framework/core/error.h"
#include "models/estimates/memory_peaks.h"
#include "tests/training/small_decoder.h"

namespace packtrain {
namespace {

constexpr std::int64_t kRows = 4096;

struct Model {
  Config config;
  DecoderConfig decoder = small_decoder();
};

Model twelve_layers(const RecomputeByLayer& recompute) {
  Model model;
  model.decoder.num_layers = 12;
  model.config.memory.recompute = recompute;
  return model;
}

LayerPolicies policies_of(const Model& model) {
  return policies_by_rows(model.config, model.decoder, DeviceKind::kCuda);
}

std::int64_t peak_bytes(const Model& model, const LayerPolicies& policies, std::int64_t num_rows) {
  MicroBatchShape shape = assumed_shape(model.config, DeviceKind::kCuda, num_rows);
  shape.max_rows = kRows;
  return std::ranges::max(memory_peaks(model.decoder, policies, shape), {}, &MemoryPeak::bytes)
      .bytes();
}

std::vector<RecomputeByLayer> largest_recomputes() {
  return {{Recompute::kSelective, 3, Recompute::kNone, kRows},
          {Recompute::kNone, 0, Recompute::kSelective, kRows},
          {Recompute::kFull, 5, Recompute::kSelective, kRows},
          {Recompute::kNone, 0, Recompute::kFull, kRows}};
}

TEST(AdaptiveRecompute, NoSizeNeedsMoreMemoryThanTheLargest) {
  for (const RecomputeByLayer& recompute : largest_recomputes()) {
    SCOPED_TRACE(recompute_text(recompute));
    const Model model = twelve_layers(recompute);
    const LayerPolicies policies = policies_of(model);
    const std::int64_t limit = peak_bytes(model, policies.of_rows(kRows), kRows);
    for (std::int64_t rows = 1; rows <= kRows; rows += 37) {
      EXPECT_LE(peak_bytes(model, policies.of_rows(rows), rows), limit) << rows;
    }
  }
}

TEST(AdaptiveRecompute, ASmallMicroBatchRecomputesNothingAndALargeOneAsConfigured) {
  for (const RecomputeByLayer& recompute : largest_recomputes()) {
    SCOPED_TRACE(recompute_text(recompute));
    const LayerPolicies policies = policies_of(twelve_layers(recompute));
    const RecomputeByRows last_layer = policies.by_rows(11);
    EXPECT_EQ(policies.by_rows(0).of(64), RecomputePolicy::none());
    EXPECT_EQ(last_layer.of(64), RecomputePolicy::none());
    EXPECT_EQ(last_layer.of(kRows), policies.of(11));
    EXPECT_EQ(policies.of_rows(kRows).num_first, recompute.num_first);
  }
}

// One layer less would need more than the largest micro-batch does, at the most rows of a class.
TEST(AdaptiveRecompute, NoLayerRecomputesMoreThanItHasTo) {
  const Model model = twelve_layers({Recompute::kSelective, 9, Recompute::kNone, kRows});
  const LayerPolicies policies = policies_of(model);
  const std::int64_t limit = peak_bytes(model, policies, kRows);
  int num_checked = 0;
  for (const LayerPolicies::Smaller& smaller : policies.smaller) {
    if (smaller.num_first == 0) continue;
    const LayerPolicies fewer(smaller.first, smaller.num_first - 1, smaller.rest);
    EXPECT_GT(peak_bytes(model, fewer, smaller.max_rows), limit) << smaller.max_rows;
    ++num_checked;
  }
  EXPECT_GT(num_checked, 1);
}

TEST(AdaptiveRecompute, WithoutRowsAllSizesRecomputeTheSame) {
  const LayerPolicies policies =
      policies_of(twelve_layers({Recompute::kSelective, 3, Recompute::kNone}));
  EXPECT_TRUE(policies.smaller.empty());
  EXPECT_EQ(policies.by_rows(0).of(1), RecomputePolicy::selective());
  EXPECT_EQ(policies.by_rows(3).of(1), RecomputePolicy::none());
}

TEST(AdaptiveRecompute, MoreLayersThanTheModelHasAreAnError) {
  const Model model = twelve_layers({Recompute::kSelective, 12, Recompute::kNone, kRows});
  try {
    policies_of(model);
    FAIL() << "no error";
  } catch (const Error& error) {
    EXPECT_NE(std::string(error.what()).find("selective:12@4096"), std::string::npos)
        << error.what();
  }
}

}  // namespace
}  // namespace packtrain
