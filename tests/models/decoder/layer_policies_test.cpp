// A layer saves what the policy of the micro-batch's size says.
#include "models/decoder/layer_policies.h"

#include <gtest/gtest.h>

#include <map>
#include <string>

#include "models/decoder/decoder.h"
#include "tests/models/batches.h"

namespace packtrain {
namespace {

using BytesByName = std::map<std::string, std::int64_t>;

BytesByName saved_by(const LayerPolicies& policies, std::int64_t num_rows,
                     bool as_largest = false) {
  DecoderOptions options;
  options.recompute = policies;
  TestModel model(small_config(), options, at::kFloat);
  model.operator_options().recomputes_as_largest = as_largest;
  DeviceBatch batch = random_batch({static_cast<std::int32_t>(num_rows)}, 61, at::kCPU);
  BytesByName bytes;
  for (const SavedActivation& value : model.saved_by_layer(batch, 0)) {
    bytes[value.name] = value.bytes;
  }
  return bytes;
}

LayerPolicies three_sizes() {
  LayerPolicies policies = RecomputePolicy::full();
  policies.smaller = {{32, RecomputePolicy::none(), 0, RecomputePolicy::none()},
                      {48, RecomputePolicy::selective(), 1, RecomputePolicy::none()}};
  return policies;
}

TEST(LayerPolicies, ALayerSavesByTheRowsOfTheMicroBatch) {
  EXPECT_EQ(saved_by(three_sizes(), 32), saved_by(RecomputePolicy::none(), 32));
  EXPECT_EQ(saved_by(three_sizes(), 33), saved_by(RecomputePolicy::selective(), 33));
  EXPECT_EQ(saved_by(three_sizes(), 49), saved_by(RecomputePolicy::full(), 49));
  EXPECT_NE(saved_by(RecomputePolicy::none(), 32), saved_by(RecomputePolicy::selective(), 32));
}

TEST(LayerPolicies, AModelMayRecomputeAsInTheLargestMicroBatch) {
  EXPECT_EQ(saved_by(three_sizes(), 32, /*as_largest=*/true),
            saved_by(RecomputePolicy::full(), 32));
}

TEST(LayerPolicies, ThoseOfASizeKeepWhereInputsAre) {
  LayerPolicies policies = three_sizes();
  policies.inputs_on_host = true;
  EXPECT_TRUE(policies.of_rows(10).inputs_on_host);
  EXPECT_TRUE(policies.of_rows(100).inputs_on_host);
  EXPECT_EQ(policies.of_rows(40).of(0), RecomputePolicy::selective());
  EXPECT_EQ(policies.of_rows(40).of(1), RecomputePolicy::none());
}

}  // namespace
}  // namespace packtrain
