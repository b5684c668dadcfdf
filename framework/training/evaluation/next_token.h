// The next token of a text, by a model's logits.
#pragma once

#include <cstdint>
#include <span>

namespace packtrain {

struct NextTokenOptions {
  double temperature = 0;  // 0: always the likeliest
  double top_p = 1;        // (0, 1]: of the likeliest tokens that together have this probability
};

// Of logits [V], V > 0: the largest, of equal ones the lowest id; with a temperature drawn by
// `uniform` in [0, 1) from softmax(logits / temperature) without its tail (nucleus sampling, arXiv
// 1904.09751). Where no probabilities can be made of them (a NaN, an infinity) the largest number.
std::int32_t choose_token(std::span<const float> logits, const NextTokenOptions& options,
                          double uniform);

}  // namespace packtrain
