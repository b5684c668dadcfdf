// Which weights of a family NF4 can store, by where its tensors lie.
#include "models/families/nf4_layout.h"

#include <gtest/gtest.h>

#include <cstddef>
#include <nlohmann/json.hpp>
#include <string>

#include "framework/core/error.h"
#include "framework/core/file.h"
#include "models/families/family.h"

namespace packtrain::nf4_layout_test {
namespace {

DecoderConfig sample_of(const std::string& model_type, std::size_t number = 0) {
  const std::string path = std::string(FAMILY_SAMPLES "/") + model_type + ".json";
  const auto samples = nlohmann::json::parse(read_text(path, ErrorCategory::kInternal));
  return parse_decoder_config(samples.at(number).dump());
}

TEST(Nf4Layout, FusedProjectionsOfSeparateTensorsAreWhole) {
  EXPECT_TRUE(parameters_that_cut_tensors(sample_of("llama")).empty());
  EXPECT_TRUE(parameters_that_cut_tensors(sample_of("mixtral")).empty());
}

TEST(Nf4Layout, InterleavedHeadsAndTransposedExpertsAreCut) {
  const auto falcon = parameters_that_cut_tensors(sample_of("falcon", 1));
  EXPECT_TRUE(falcon.contains("layers.0.attention.qkv.weight"));
  EXPECT_FALSE(falcon.contains("layers.0.mlp.down.weight"));
  const auto dbrx = parameters_that_cut_tensors(sample_of("dbrx"));
  EXPECT_TRUE(dbrx.contains("layers.0.mlp.experts.down.weight"));
  EXPECT_FALSE(dbrx.contains("layers.0.attention.output.weight"));
}

TEST(Nf4Layout, AModelWithoutAFamilyCutsNothing) {
  EXPECT_TRUE(parameters_that_cut_tensors(DecoderConfig()).empty());
}

}  // namespace
}  // namespace packtrain::nf4_layout_test
