// MXFP4, the encoding of gpt-oss's published experts (OCP Microscaling Formats v1.0, sections 5.3.3
// and 6.3). 32 consecutive FP4 values (E2M1) share a scale 2^(s - 127). A tensor [..., C] is stored
// as `blocks`, uint8 [..., C / 32, 16], and `scales`, uint8 [..., C / 32]. A byte of `blocks` has
// two elements, the first one in its low half.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

namespace packtrain {

// Decodes elements [first, first + values.size()) of the flattened tensor. All values are exact,
// also in bfloat16, except for scales at the limits of float32. A scale of 255 is NaN, as in the
// standard.
void decode_mxfp4(std::span<const std::byte> blocks, std::span<const std::byte> scales,
                  std::int64_t first, std::span<float> values);

}  // namespace packtrain
