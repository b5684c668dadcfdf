// Whole decoders whose linear layers multiply 8-bit floats.
#include <ATen/TensorOperators.h>

#include <algorithm>
#include <cmath>
#include <memory>

#include "framework/core/error.h"
#include "models/decoder/linear_weights.h"
#include "tests/models/batches.h"
#include "tests/models/cases.h"
#include "tests/models/variants.h"

namespace packtrain::fp8_decoder_test {
namespace {

class Fp8Decoder : public testing::TestWithParam<OperatorCase> {};
INSTANTIATE_TEST_SUITE_P(Devices, Fp8Decoder, testing::ValuesIn(operator_cases()), case_name);

const std::vector<std::int32_t> kLengths = {9, 2, 31, 1, 14};

constexpr Fp8Recipe kRecipes[] = {Fp8Recipe::kTensor, Fp8Recipe::kBlock,
                                  Fp8Recipe::kBlockAndTensorOfGradient};

DecoderConfig with_fp8(DecoderConfig config, std::vector<std::string> keep = {},
                       Fp8Recipe recipe = Fp8Recipe::kTensor) {
  config.linear = {Fp8Products::kAll, std::move(keep), recipe};
  return config;
}

// All variants, with the recipes in turn, and two of them with each.
std::vector<Variant> fp8_variants() {
  std::vector<Variant> variants = decoder_variants();
  // Its own projections stay out of 8 bits, with any recipe.
  const Variant layer_inputs = *std::ranges::find(variants, "inputs of layers", &Variant::name);
  const Variant copies = *std::ranges::find(variants, "copies of the hidden state", &Variant::name);
  for (std::size_t i = 0; i < variants.size(); ++i) {
    variants[i].config = with_fp8(variants[i].config, {}, kRecipes[i % std::size(kRecipes)]);
  }
  for (const Fp8Recipe recipe : kRecipes) {
    variants.push_back({"recipe", with_fp8(small_config(), {}, recipe)});
    variants.push_back({"inputs of layers", with_fp8(layer_inputs.config, {}, recipe)});
    variants.push_back({"copies of the hidden state", with_fp8(copies.config, {}, recipe)});
  }
  return variants;
}

// The norm of the difference of all gradients as a share of their norm.
double relative_error(const TestModel::Result& got, const TestModel::Result& want) {
  double difference = 0;
  double whole = 0;
  for (const auto& [name, grad] : want.grads) {
    const at::Tensor wide = wide_copy(grad);
    difference += (wide_copy(got.grads.at(name)) - wide).square().sum().item<double>();
    whole += wide.square().sum().item<double>();
  }
  return std::sqrt(difference / whole);
}

// Loss and gradients of each sequence alone, summed in float64.
TestModel::Result one_by_one(TestModel& model, const Sequences& sequences,
                             const at::Device& device) {
  TestModel::Result sum;
  for (const auto& ids : sequences.ids) {
    const TestModel::Result alone = model.train(make_batch({{ids}}, device));
    sum.loss = sum.loss.defined() ? sum.loss + wide_copy(alone.loss) : wide_copy(alone.loss);
    for (const auto& [name, grad] : alone.grads) {
      at::Tensor& total = sum.grads[name];
      total = total.defined() ? total + wide_copy(grad) : wide_copy(grad);
    }
  }
  return sum;
}

TEST_P(Fp8Decoder, WithAllWeightsKeptNoBitChanges) {
  const OperatorCase& on = GetParam();
  DeviceBatch batch = random_batch(kLengths, 61, on.device);
  TestModel plain(small_config(), {}, on.options());
  TestModel kept(with_fp8(small_config(), {"layers.*"}), {}, on.options());
  const TestModel::Result want = plain.train(batch);
  const TestModel::Result got = kept.train(batch);
  EXPECT_EQ(got.loss.item<float>(), want.loss.item<float>());
  if (on.device.is_cuda()) return;  // its attention adds gradients with atomics
  EXPECT_EQ(relative_error(got, want), 0);
}

// The scales are powers of two, so that packing changes no code by itself. With a scale for each
// 128 numbers of a token no other token matters at all. But it changes the order of sums, and so
// the last bits of what is rounded: by about 2^-20 in float32 and 2^-8 in bfloat16. The number then
// has the next code, 2^-3 of it away, with a probability of that over 2^-3. The root of the mean
// square is sqrt(2^-20 2^-3) or sqrt(2^-8 2^-3): 4e-4 or 2e-2. It grows in the few products of two
// layers. Tensor cores sum in 14 bits, in an order that depends on the shape. So on GPUs the codes
// of deeper layers are rounded independently, as in the next test.
TEST_P(Fp8Decoder, PackedEqualsOneByOne) {
  const OperatorCase& on = GetParam();
  for (const auto& [name, config] : fp8_variants()) {
    SCOPED_TRACE(name);
    TestModel model(config, {}, on.options());
    const Sequences sequences = random_sequences(kLengths, 61);
    const TestModel::Result alone = one_by_one(model, sequences, on.device);
    const TestModel::Result packed = model.train(make_batch(sequences, on.device));
    const double code = std::sqrt((on.dtype == at::kFloat ? 0x1p-20 : 0x1p-8) * 0x1p-3);
    EXPECT_LT(relative_error(packed, alone), on.device.is_cpu() ? 4 * code : 0.6);
    EXPECT_NEAR(packed.loss.item<double>() / alone.loss.item<double>(), 1.0, 2e-2);
  }
}

// A number's error is up to 2^-4 of itself in e4m3 and 2^-3 in e5m2, and a third of its square on
// average. A product's terms have independent errors of both operands, so that its relative error
// is about sqrt(2^-8 / 3 + 2^-6 / 3), 8 %. A dozen products between a weight and the loss have 28
// %. Attention with large weights, as here, amplifies that. A wrong scale would give at least 1.
TEST_P(Fp8Decoder, GradientsAreNearThoseWithoutIt) {
  const OperatorCase& on = GetParam();
  for (const auto& [name, config] : fp8_variants()) {
    DeviceBatch batch = random_batch(kLengths, 61, on.device);
    SCOPED_TRACE(name);
    DecoderConfig without = config;
    without.linear = {};
    TestModel plain(without, {}, on.options());
    TestModel fp8(config, {}, on.options());
    const TestModel::Result want = plain.train(batch);
    const TestModel::Result got = fp8.train(batch);
    EXPECT_NEAR(got.loss.item<double>() / want.loss.item<double>(), 1.0, 0.05);
    EXPECT_NE(got.loss.item<double>(), want.loss.item<double>());
    EXPECT_LT(relative_error(got, want), 0.6);
  }
}

TEST_P(Fp8Decoder, EvaluationHasTheLossOfTraining) {
  const OperatorCase& on = GetParam();
  DeviceBatch batch = random_batch(kLengths, 61, on.device);
  for (const Fp8Recipe recipe : kRecipes) {
    TestModel model(with_fp8(small_config(), {}, recipe), {}, on.options());
    const float loss = model.train(batch).loss.item<float>();
    EXPECT_EQ(model.evaluate(batch).item<float>(), loss);
  }
}

TEST_P(Fp8Decoder, AWeightThatIsNotFiniteMakesTheLossNan) {
  const OperatorCase& on = GetParam();
  DeviceBatch batch = random_batch(kLengths, 61, on.device);
  for (const Fp8Recipe recipe : kRecipes) {
    TestModel model(with_fp8(small_config(), {}, recipe), {}, on.options());
    model.value("layers.1.mlp.down.weight")[3][5] = HUGE_VAL;
    EXPECT_TRUE(model.train(batch).loss.isnan().item<bool>());
  }
}

TEST(Fp8Weights, AreThoseOfLinearLayersWithWholeVectors) {
  DecoderConfig config = with_fp8(small_config(), {"layers.0.*.qkv.*"});
  config.intermediate_size = 40;
  const LinearWeights weights = linear_weights(config);
  EXPECT_EQ(weights.in_fp8, (std::vector<std::string>{
                                "layers.0.attention.output.weight", "layers.0.mlp.gate_up.weight",
                                "layers.1.attention.qkv.weight", "layers.1.attention.output.weight",
                                "layers.1.mlp.gate_up.weight"}));
  EXPECT_EQ(weights.kept, (std::vector<std::string>{"layers.0.attention.qkv.weight"}));
  EXPECT_EQ(weights.odd,
            (std::vector<std::string>{"layers.0.mlp.down.weight", "layers.1.mlp.down.weight"}));
}

DecoderConfig with_adapter(DecoderConfig config, double dropout, bool use_dora) {
  AdapterTargets adapter;
  adapter.dropout = dropout;
  adapter.use_dora = use_dora;
  adapter.weights["layers.0.mlp.down.weight"] = {{"down_proj", 0, 32, 4, 8.0}};
  adapter.trained = {"layers.1.mlp.down.weight"};
  config.adapter = std::make_shared<const AdapterTargets>(adapter);
  return config;
}

TEST(Fp8Weights, OnlyTrainedOnesHaveAGradientIn8Bits) {
  const DecoderConfig config = with_adapter(with_fp8(small_config()), 0.1, false);
  EXPECT_EQ(config.fp8_of("layers.0.mlp.down.weight", 32, 48), Fp8Products::kForwardAndInput);
  EXPECT_EQ(config.fp8_of("layers.1.mlp.down.weight", 32, 48), Fp8Products::kAll);
  EXPECT_EQ(config.fp8_of("layers.1.mlp.gate_up.weight", 96, 32), Fp8Products::kForwardAndInput);
}

TEST(Fp8Weights, OfDoraWithDropoutStayOut) {
  const DecoderConfig config = with_adapter(with_fp8(small_config()), 0.1, true);
  EXPECT_EQ(linear_weights(config).divided, (std::vector<std::string>{"layers.0.mlp.down.weight"}));
  EXPECT_TRUE(linear_weights(with_adapter(with_fp8(small_config()), 0, true)).divided.empty());
}

DecoderConfig config_with_experts(std::vector<std::string> keep, Fp8Recipe recipe) {
  DecoderConfig config = with_fp8(small_config(), std::move(keep), recipe);
  config.experts = {.num_experts = 4, .experts_per_token = 2, .intermediate_size = 96};
  config.layers = {{.experts = false}, {.experts = true}};
  return config;
}

TEST(Fp8Weights, ExpertsHaveTheScalesOfTensorsAlone) {
  const std::vector<std::string> names = {"layers.1.mlp.experts.gate_up.weight",
                                          "layers.1.mlp.experts.down.weight"};
  EXPECT_EQ(linear_weights(config_with_experts({}, Fp8Recipe::kTensor)).experts_in_fp8, names);
  EXPECT_TRUE(linear_weights(config_with_experts({}, Fp8Recipe::kTensor)).experts.empty());
  EXPECT_EQ(linear_weights(config_with_experts({}, Fp8Recipe::kBlock)).experts, names);
  EXPECT_TRUE(linear_weights(config_with_experts({}, Fp8Recipe::kBlock)).experts_in_fp8.empty());
}

TEST(Fp8Weights, ExpertsThatAreKeptOrOddStayOut) {
  const std::string down = "layers.1.mlp.experts.down.weight";
  DecoderConfig config = config_with_experts({"*.experts.gate_up.*"}, Fp8Recipe::kTensor);
  EXPECT_EQ(linear_weights(config).kept,
            (std::vector<std::string>{"layers.1.mlp.experts.gate_up.weight"}));
  EXPECT_EQ(linear_weights(config).experts_in_fp8, (std::vector<std::string>{down}));
  config.experts.intermediate_size = 40;
  EXPECT_EQ(linear_weights(config).odd, (std::vector<std::string>{down}));
}

TEST(Fp8Weights, APatternThatNamesNoneIsRefused) {
  EXPECT_THROW(linear_weights(with_fp8(small_config(), {"layers.7.*"})), Error);
  EXPECT_THROW(linear_weights(with_fp8(small_config(), {"head.weight"})), Error);
}

}  // namespace
}  // namespace packtrain::fp8_decoder_test
