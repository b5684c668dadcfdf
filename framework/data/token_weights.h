// What tokens weigh in the loss by their mask bytes. A table's entry m is the weight of byte m: 0
// for byte 0, 1 for byte 1, and more than 0 and at most 1 for others. No table: bytes are 0 and 1.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

namespace packtrain {

inline constexpr const char* kLossWeightsKey = "loss_weights";  // of store.json, and a requirement
inline constexpr std::size_t kMaxTokenWeights = 256;            // values of a byte

using TokenWeights = std::span<const double>;  // empty: no table

// Tokens of the mask that are supervised.
std::int64_t count_supervised(std::span<const std::uint8_t> mask);

// The sum of what they weigh. Bytes are counted first, so that it does not depend on their order
// and is a whole number exactly where all weigh 1.
double sum_of_weights(std::span<const std::uint8_t> mask, TokenWeights weights);

}  // namespace packtrain
