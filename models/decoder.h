// One config-driven decoder: embedding, layers, head with loss, as a list of blocks.
// The way in to `models/`.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "models/block.h"
#include "models/decoder_config.h"
#include "models/operator_tape.h"

namespace packtrain {

struct DecoderOptions {
  std::vector<std::string> frozen;  // parameter names not trained; `*` matches any characters
  bool decay_norms_and_biases = false;
  RecomputePolicy recompute = RecomputePolicy::none();
};

// blocks[0] embeds, blocks[1 .. num_layers] are the layers, the last is final norm + head + loss.
// Throws Error(kConfig) when a pattern in `frozen` matches no parameter.
std::vector<std::unique_ptr<Block>> make_decoder(const DecoderConfig& config,
                                                 const DecoderOptions& options);

// Parameters that a token is multiplied with (embedding look-up excluded, head included; of experts
// those that it goes to) and all parameters.
std::int64_t num_matmul_parameters(const DecoderConfig& config);
std::int64_t num_parameters(const DecoderConfig& config);

// Floating-point operations of one training step (forward + backward) on examples of these lengths:
// 6 * matmul parameters * tokens + 6 * layers * heads * head_dim * squares, causal attention.
// `attention_squares`: the sum over examples of L^2, of which half are the pairs of tokens that
// attention works on; with windows what AttentionSpan::squares (samplers/options.h) makes of it.
double training_flops(const DecoderConfig& config, double num_tokens, double attention_squares);

}  // namespace packtrain
