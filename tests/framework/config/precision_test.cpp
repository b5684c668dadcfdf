// Tests the section precision: 8-bit products, and settings that contradict them.
#include <gtest/gtest.h>

#include "tests/framework/config/config_text.h"

namespace packtrain {
namespace {

constexpr const char* kFp8 =
    "precision: {linear: fp8_tensor, weight_gradient: fp8, keep_bf16: ['*.down.*']}";

TEST(ConfigPrecision, EightBitProductsAreOffByDefault) {
  const Config config = load("");
  EXPECT_EQ(config.precision.linear, LinearProducts::kBFloat16);
  EXPECT_EQ(config.precision.weight_gradient, WeightGradientProducts::kBFloat16);
  EXPECT_TRUE(config.precision.keep_bf16.empty());
}

TEST(ConfigPrecision, EightBitProductsAreReadAndWritten) {
  for (const Config& config : {load(kFp8), load(dump_config(load(kFp8)))}) {
    EXPECT_EQ(config.precision.linear, LinearProducts::kFp8Tensor);
    EXPECT_EQ(config.precision.weight_gradient, WeightGradientProducts::kFp8);
    EXPECT_EQ(config.precision.keep_bf16, std::vector<std::string>{"*.down.*"});
  }
}

void expect_refused(const std::string& text, const std::string& part) {
  const std::string error = load_error(text);
  EXPECT_NE(error.find(part), std::string::npos) << error;
}

TEST(ConfigPrecision, KeysOfEightBitProductsWithoutThemAreRefused) {
  expect_refused("precision: {weight_gradient: fp8}", "precision.linear is bf16 (default)");
  expect_refused("precision: {keep_bf16: [a]}", "precision.linear is bf16 (default)");
}

TEST(ConfigPrecision, AdaptersHaveEightBitProductsOfWholeTensors) {
  const Config config = load(std::string(kFp8) + "\nadapter: {kind: lora}");
  EXPECT_EQ(config.precision.linear, LinearProducts::kFp8Tensor);
  expect_refused("precision: {linear: fp8_block}\nadapter: {kind: lora}", "an adapter is trained");
}

TEST(ConfigPrecision, ScalesOfBlocksAreReadAndWritten) {
  const std::string text = "precision: {linear: fp8_block, weight_gradient: fp8_block}";
  for (const Config& config : {load(text), load(dump_config(load(text)))}) {
    EXPECT_EQ(config.precision.linear, LinearProducts::kFp8Block);
    EXPECT_EQ(config.precision.weight_gradient, WeightGradientProducts::kFp8Block);
  }
  const Config mixed = load("precision: {linear: fp8_block, weight_gradient: fp8}");
  EXPECT_EQ(mixed.precision.weight_gradient, WeightGradientProducts::kFp8);
}

TEST(ConfigPrecision, AWeightGradientWithScalesOfBlocksNeedsThemInOtherProducts) {
  for (const char* linear : {"bf16", "fp8_tensor"}) {
    expect_refused(std::string("precision: {weight_gradient: fp8_block, linear: ") + linear + "}",
                   std::string("precision.linear is ") + linear);
  }
}

TEST(ConfigPrecision, AMasterIsNotNarrowerThanWhatComputes) {
  EXPECT_EQ(load("").precision.master, Precision::kFloat32);
  EXPECT_EQ(load("precision: {master: bf16}").precision.master, Precision::kBFloat16);
  expect_refused("precision: {compute: fp32, reduce: fp32, master: bf16}",
                 "precision.compute is fp32");
}

TEST(ConfigPrecision, SeveralAdaptersHaveAMasterInFloat32) {
  expect_refused(
      "precision: {master: bf16}\n"
      "adapters: [{name: a}, {name: b}]",
      "precision.master: bf16 is not possible with several adapters");
}

TEST(ConfigPrecision, OtherFormatsAreRefused) {
  expect_refused("precision: {linear: mxfp8}", "wanted one of bf16, fp8_tensor, fp8_block");
}

}  // namespace
}  // namespace packtrain
