// What a layer records at the ends of its branches.
#include "models/decoder/layer_operators.h"

#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "framework/core/error.h"
#include "models/layers/recorded_operators.h"
#include "tests/models/batches.h"

namespace packtrain {
namespace {

DecoderConfig multiplied() {
  DecoderConfig config = small_config();
  config.residual_multiplier = 0.25;
  config.qkv_bias = config.attention_output_bias = config.mlp_bias = false;
  return config;
}

// Names of values that are sums of the residual stream and a branch, without its product.
std::vector<std::string> own_sums(const DecoderConfig& config) {
  const ShapeTape tape = layer_shapes(config, 0, {.num_rows = 16, .num_supervised_rows = 16});
  std::vector<std::string> names;
  for (const Operator& step : tape.operators()) {
    const std::string& name = tape.name(step.outputs.front());
    if (name.ends_with(".sum")) names.push_back(name);
  }
  return names;
}

TEST(LayerOperators, TheLastProductOfABranchMultipliesAndAddsTheResidual) {
  EXPECT_TRUE(own_sums(multiplied()).empty());
}

TEST(LayerOperators, ABiasIsMultipliedInASumOfItsOwn) {
  DecoderConfig config = multiplied();
  config.attention_output_bias = true;
  EXPECT_EQ(own_sums(config), std::vector<std::string>{"attention.output.sum"});
}

TEST(LayerOperators, ProductsOf8BitFloatsAreMultipliedInASumOfTheirOwn) {
  DecoderConfig config = multiplied();
  config.linear.products = Fp8Products::kAll;
  const std::vector<std::string> want{"attention.output.sum", "mlp.down.sum"};
  EXPECT_EQ(own_sums(config), want);
}

TEST(LayerOperators, AScaleThatAGemmCannotApplyIsRefused) {
  ShapeTape tape({.num_rows = 16, .num_supervised_rows = 16});
  const Value x = tape.input(8);
  EXPECT_NO_THROW(linear(tape, "plain", x, {.width = 4, .scale = 0.5}));
  EXPECT_THROW(linear(tape, "with_bias", x, {.width = 4, .bias = true, .scale = 0.5}), Error);
}

TEST(LayerOperators, AFactorOf1NeedsNoSum) {
  DecoderConfig config = small_config();
  EXPECT_TRUE(own_sums(config).empty());
  config.linear.products = Fp8Products::kAll;
  EXPECT_TRUE(own_sums(config).empty());
}

}  // namespace
}  // namespace packtrain
