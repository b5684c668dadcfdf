// Chooses the next token of a text from a model's logits.
#pragma once

#include <cstdint>
#include <span>

namespace packtrain {

struct NextTokenOptions {
  double temperature = 0;  // 0: always the most likely token
  double top_p = 1;  // (0, 1]: draw from the most likely tokens that together have this probability
};

// `logits` [V], V > 0. Without a temperature the largest logit wins; of equal ones, the lowest id.
// With a temperature `uniform` in [0, 1) draws from softmax(logits / temperature), restricted to
// top_p (nucleus sampling, arXiv 1904.09751). Logits that give no probabilities (a NaN, an
// infinity) use the largest number.
std::int32_t choose_token(std::span<const float> logits, const NextTokenOptions& options,
                          double uniform);

}  // namespace packtrain
