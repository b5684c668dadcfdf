// Loss weights of tokens by mask byte. Entry m of a table is the weight of byte m: 0 for byte 0, 1
// for byte 1, in (0, 1] for others. Without a table, bytes are 0 and 1.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

namespace packtrain {

// key of store.json and name of the requirement
inline constexpr const char* kLossWeightsKey = "loss_weights";
inline constexpr std::size_t kMaxTokenWeights = 256;  // values of a byte

using TokenWeights = std::span<const double>;  // empty: no table

// Number of supervised tokens of the mask.
std::int64_t count_supervised(std::span<const std::uint8_t> mask);

// The sum of their weights. Bytes are counted first, so that the sum does not depend on their order
// and is an exact integer when all weights are 1.
double sum_of_weights(std::span<const std::uint8_t> mask, TokenWeights weights);

}  // namespace packtrain
