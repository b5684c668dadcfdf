// Floating-point operations of a model, added up over the operators of its shape tapes.
#pragma once

#include <cstdint>

#include "models/layers/decoder_config.h"

namespace packtrain {

// Parameters that a token is multiplied with. This excludes the embedding look-up, includes the
// head, and counts only the experts that a token is routed to.
std::int64_t num_matmul_parameters(const DecoderConfig& config);

// Floating-point operations of one training step (forward and backward) on examples of these
// lengths. It is 6 * matmul parameters * tokens (4 for frozen parameters) + 6 * layers * heads *
// head_dim * squares, with causal attention. `attention_squares` is the sum over examples of L^2,
// half of which are token pairs that attention computes. For windows it is that of
// AttentionSpan::squares (samplers/attention_span.h).
double training_flops(const DecoderConfig& config, double num_tokens, double attention_squares);

}  // namespace packtrain
