// The inputs of layers where their embedding has fewer rows than that of tokens.
#include "models/decoder/layer_inputs.h"

#include <vector>

#include "models/block/batch.h"
#include "tests/models/cases.h"

namespace packtrain::layer_inputs_test {
namespace {

class InputsOfLayers : public testing::TestWithParam<OperatorCase> {};
INSTANTIATE_TEST_SUITE_P(Devices, InputsOfLayers, testing::ValuesIn(operator_cases()), case_name);

constexpr std::int64_t kNumInputRows = 5;

DecoderConfig config_with(std::int64_t layer_input_vocab) {
  DecoderConfig config;
  config.vocab_size = 9;
  config.hidden_size = 12;
  config.num_layers = 2;
  config.layer_input_width = 3;
  config.layer_input_vocab = layer_input_vocab;
  return config;
}

struct Computed {
  at::Tensor rows;
  at::Tensor grad_embedded;
  at::Tensor grad_embedding;
};

Computed computed(const OperatorCase& on, const DecoderConfig& config,
                  const std::vector<std::int32_t>& ids) {
  const std::int64_t width = config.layer_inputs_width();
  const std::vector<Parameter> parameters = {
      random_parameter(on, {kNumInputRows, width}, "E"),
      random_parameter(on, {width, config.hidden_size}, "W"),
      random_parameter(on, {config.layer_input_width}, "norm")};
  const auto num_rows = static_cast<std::int64_t>(ids.size());
  const at::Tensor embedded = random_tensor(on, {num_rows, config.hidden_size}, "embedded");
  DeviceBatch batch;
  batch.input_ids = int_tensor(on, ids);
  const OperatorOptions options;
  const BlockContext context{batch, BlockMode::kTrain, options};
  const LayerInputs inputs(config);
  inputs.forward(parameters, context, embedded);
  Computed result{batch.state.layer_inputs.rows, {}, {}};
  batch.state.layer_inputs.gradient = random_tensor(on, {num_rows, width}, "grad");
  result.grad_embedded = inputs.backward(parameters, context, embedded, embedded);
  result.grad_embedding = parameters[0].grad;
  return result;
}

TEST_P(InputsOfLayers, LargerIdsHaveTheRowOfIdZero) {
  const Computed got = computed(GetParam(), config_with(kNumInputRows), {4, 5, 8, 2, 0});
  const Computed want = computed(GetParam(), config_with(0), {4, 0, 0, 2, 0});
  expect_close(got.rows, wide_copy(want.rows), 0, "rows");
  expect_close(got.grad_embedded, wide_copy(want.grad_embedded), 0, "d embedded");
  expect_close(got.grad_embedding, wide_copy(want.grad_embedding), 0, "d E");
}

TEST(InputsOfLayersRows, HaveAsManyRowsAsTheConfigSays) {
  EXPECT_EQ(config_with(kNumInputRows).num_layer_input_rows(), kNumInputRows);
  EXPECT_EQ(config_with(0).num_layer_input_rows(), 9);
}

}  // namespace
}  // namespace packtrain::layer_inputs_test
