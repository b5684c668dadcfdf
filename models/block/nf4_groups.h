// The layout of weights in NF4. CUDA files include it too.
#pragma once

#include <cstdint>

namespace packtrain {

// NF4 with double quantisation, as bitsandbytes has it: a block of 64 elements has an absmax, and
// 256 blocks have a nested absmax. We store these 16,384 elements together. This is a group.
// - float32 nested absmax, float32 offset of the absmaxes, unused up to byte 64
// - 256 absmax codes, 1 byte each
// - 16,384 codes, 4 bits each, the first of two in the high half of its byte.
// 64 groups are a multiple of 4096 bytes, as the shards of ranks are. So a shard is whole groups.
inline constexpr std::int64_t kNf4BlockElements = 64;
inline constexpr std::int64_t kNf4GroupBlocks = 256;
inline constexpr std::int64_t kNf4GroupElements = kNf4BlockElements * kNf4GroupBlocks;
inline constexpr std::int64_t kNf4HeaderBytes = 64;
inline constexpr std::int64_t kNf4GroupBytes =
    kNf4HeaderBytes + kNf4GroupBlocks + kNf4GroupElements / 2;

constexpr std::int64_t num_nf4_groups(std::int64_t numel) {
  return (numel + kNf4GroupElements - 1) / kNf4GroupElements;
}

}  // namespace packtrain
