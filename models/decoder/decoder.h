// Builds a decoder from a config: embedding, layers, and head with loss, as a list of blocks. This
// is the entry point of `models/`.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "models/block/block.h"
#include "models/block/operator_tape.h"
#include "models/layers/decoder_config.h"

namespace packtrain {

struct DecoderOptions {
  std::vector<std::string> frozen;  // names not trained; `*` matches any characters
  bool decay_norms_and_biases = false;
  RecomputePolicy recompute = RecomputePolicy::none();
};

// blocks[0] embeds, blocks[1 .. num_layers] are the layers, the last is final norm + head + loss.
// Throws Error(kConfig) when a pattern in `frozen` matches no parameter.
std::vector<std::unique_ptr<Block>> make_decoder(const DecoderConfig& config,
                                                 const DecoderOptions& options);

// Parameters that a token is multiplied with, and all parameters. The first excludes the embedding
// look-up, includes the head, and counts only the experts that a token is routed to.
std::int64_t num_matmul_parameters(const DecoderConfig& config);
std::int64_t num_parameters(const DecoderConfig& config);

// Floating-point operations of one training step (forward and backward) on examples of these
// lengths. It is 6 * matmul parameters * tokens + 6 * layers * heads * head_dim * squares, with
// causal attention. `attention_squares` is the sum over examples of L^2, half of which are token
// pairs that attention computes. For windows it is that of AttentionSpan::squares
// (samplers/options.h).
double training_flops(const DecoderConfig& config, double num_tokens, double attention_squares);

}  // namespace packtrain
