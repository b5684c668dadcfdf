// The matrices of a parameter, and the rows of those that a decoder's weights stack.
#include "models/block/parameter_matrices.h"

#include <gtest/gtest.h>

#include "framework/core/error.h"
#include "models/decoder/fused_rows.h"

namespace packtrain {
namespace {

TEST(ParameterMatrices, AWeightIsOneMatrix) {
  EXPECT_EQ(parameter_matrices({.name = "w", .shape = {6, 4}}),
            (std::vector<ParameterMatrix>{{0, 6, 4}}));
}

TEST(ParameterMatrices, AFusedWeightHasEachOfItsOwn) {
  EXPECT_EQ(parameter_matrices({.name = "w", .shape = {6, 4}, .fused_rows = {3, 1, 2}}),
            (std::vector<ParameterMatrix>{{0, 3, 4}, {12, 1, 4}, {16, 2, 4}}));
}

TEST(ParameterMatrices, ExpertsHaveThemEach) {
  EXPECT_EQ(parameter_matrices({.name = "w", .shape = {2, 4, 3}, .fused_rows = {2, 2}}),
            (std::vector<ParameterMatrix>{{0, 2, 3}, {6, 2, 3}, {12, 2, 3}, {18, 2, 3}}));
}

TEST(ParameterMatrices, VectorsHaveNone) {
  EXPECT_TRUE(parameter_matrices({.name = "w", .shape = {6}}).empty());
  EXPECT_TRUE(parameter_matrices({.name = "w", .shape = {1, 6}}).empty());
  EXPECT_TRUE(parameter_matrices({.name = "w", .shape = {6, 1, 4}}).empty());
}

TEST(ParameterMatrices, FiltersOfChannelsHaveNone) {
  EXPECT_TRUE(parameter_matrices({.name = "w", .shape = {6, 4}, .is_matrix = false}).empty());
}

TEST(ParameterMatrices, FusedRowsAreAllRows) {
  EXPECT_THROW(parameter_matrices({.name = "w", .shape = {6, 4}, .fused_rows = {3, 2}}), Error);
}

class FusedRows : public ::testing::Test {
 protected:
  std::vector<std::int64_t> rows(const std::string& name, std::vector<std::int64_t> shape) const {
    return fused_rows(config_, {.name = "layers.0." + name, .shape = std::move(shape)});
  }

  FusedRows() {
    config_.num_heads = 4;
    config_.num_kv_heads = 2;
    config_.head_dim = 4;
    config_.hidden_size = 8;
    config_.activation.gated = true;
  }

  DecoderConfig config_;
};

TEST_F(FusedRows, AreThoseOfQueryKeyAndValue) {
  const std::int64_t queries = config_.num_heads * config_.head_dim;
  const std::int64_t keys = config_.num_kv_heads * config_.head_dim;
  EXPECT_EQ(rows("attention.qkv.weight", {queries + 2 * keys, config_.hidden_size}),
            (std::vector<std::int64_t>{queries, keys, keys}));
}

TEST_F(FusedRows, AreThoseOfTheGateOfAttentionsOutputBeforeTheQuery) {
  config_.attention_gate = true;
  EXPECT_EQ(rows("attention.qkv.weight", {48, 8}), (std::vector<std::int64_t>{16, 16, 8, 8}));
}

TEST_F(FusedRows, AreThoseOfCompressedRowsAndOfWhatKeysShare) {
  config_.rotary_dim = 2;
  config_.latent = {.key_value_rank = 5, .value_head_dim = 3};
  EXPECT_EQ(rows("attention.key_value_a.weight", {7, 8}), (std::vector<std::int64_t>{5, 2}));
  EXPECT_TRUE(rows("attention.key_value_b.weight", {20, 5}).empty());
}

TEST_F(FusedRows, AreThoseOfTheProjectionsOfAGatedDeltaRule) {
  config_.delta_net.num_key_heads = 2;
  config_.delta_net.num_value_heads = 4;
  config_.delta_net.key_head_dim = 3;
  config_.delta_net.value_head_dim = 5;
  EXPECT_EQ(rows("delta_net.qkvz.weight", {52, 8}), (std::vector<std::int64_t>{6, 6, 20, 20}));
  EXPECT_EQ(rows("delta_net.ba.weight", {8, 8}), (std::vector<std::int64_t>{4, 4}));
}

TEST_F(FusedRows, AreThoseOfTheGatesAndRowsOfAShortConvolution) {
  EXPECT_EQ(rows("short_conv.bcx.weight", {24, 8}), (std::vector<std::int64_t>{8, 8, 8}));
}

TEST_F(FusedRows, AreThoseOfThePartsOfAStateSpaceModel) {
  config_.mamba2 = {.num_heads = 4, .head_dim = 5, .num_groups = 2, .state_dim = 3};
  EXPECT_EQ(rows("mamba2.zxbcdt.weight", {56, 8}), (std::vector<std::int64_t>{20, 20, 6, 6, 4}));
}

TEST_F(FusedRows, AreThoseOfGateAndUp) {
  EXPECT_EQ(rows("mlp.gate_up.weight", {20, 8}), (std::vector<std::int64_t>{10, 10}));
  EXPECT_EQ(rows("mlp.experts.gate_up.weight", {4, 20, 8}), (std::vector<std::int64_t>{10, 10}));
  config_.activation.gated = false;
  EXPECT_TRUE(rows("mlp.experts.gate_up.weight", {4, 20, 8}).empty());
}

TEST_F(FusedRows, AreNoneOfOtherWeights) {
  EXPECT_TRUE(rows("attention.output.weight", {8, 8}).empty());
  EXPECT_TRUE(rows("mlp.down.weight", {8, 10}).empty());
  EXPECT_TRUE(rows("attention.qkv.bias", {24}).empty());
}

}  // namespace
}  // namespace packtrain
