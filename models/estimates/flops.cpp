#include "models/estimates/flops.h"

#include "models/decoder/head_block.h"
#include "models/estimates/layer_tapes.h"

namespace packtrain {
namespace {

// A multiplication with an addition, in forward and twice in backward.
constexpr double kFlopsOfMultiplyAdd = 6.0;
// The same without the gradient of the weight.
constexpr double kFlopsOfFrozenMultiplyAdd = 4.0;

void add_operators(const ShapeTape& tape, MultiplyAdds& sum) {
  for (const Operator& step : tape.operators()) {
    sum.of_rows += step.multiply_adds.of_rows;
    sum.of_frozen_rows += step.multiply_adds.of_frozen_rows;
    sum.of_squares += step.multiply_adds.of_squares;
  }
}

// Counts a forward with one row, which has a label.
MultiplyAdds token_multiply_adds(const DecoderConfig& config) {
  MicroBatchShape one_row;
  one_row.num_rows = one_row.num_supervised_rows = 1;
  const LayerTapes layers(config, one_row);
  MultiplyAdds sum;
  for (std::int64_t layer = 0; layer < layers.num_layers(); ++layer) {
    add_operators(layers.layer(layer), sum);
  }
  add_operators(head_shapes(config, one_row), sum);
  // The projection of the inputs of layers, which the embedding block computes.
  const std::int64_t of_inputs = config.layer_inputs_width() * config.hidden_size;
  (config.is_trained("per_layer_projection.weight") ? sum.of_rows : sum.of_frozen_rows) +=
      of_inputs;
  return sum;
}

}  // namespace

std::int64_t num_matmul_parameters(const DecoderConfig& config) {
  const MultiplyAdds token = token_multiply_adds(config);
  return token.of_rows + token.of_frozen_rows;
}

double training_flops(const DecoderConfig& config, double num_tokens, double attention_squares) {
  const MultiplyAdds token = token_multiply_adds(config);
  return kFlopsOfMultiplyAdd * static_cast<double>(token.of_rows) * num_tokens +
         kFlopsOfFrozenMultiplyAdd * static_cast<double>(token.of_frozen_rows) * num_tokens +
         kFlopsOfMultiplyAdd * static_cast<double>(token.of_squares) * attention_squares;
}

}  // namespace packtrain
