// MXFP4, the coding of gpt-oss's published experts (OCP Microscaling Formats v1.0, sections 5.3.3
// and 6.3): 32 neighbours of FP4 (E2M1) share a scale 2^(s - 127). A tensor [..., C] is `blocks`,
// uint8 [..., C / 32, 16], two elements a byte, the first one in its low half, and `scales`,
// uint8 [..., C / 32].
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

namespace packtrain {

// Elements [first, first + values.size()) of the flattened tensor. All are exact, in bfloat16 too,
// but for scales at either end of float32. A scale of 255 is NaN, as the standard says.
void decode_mxfp4(std::span<const std::byte> blocks, std::span<const std::byte> scales,
                  std::int64_t first, std::span<float> values);

}  // namespace packtrain
