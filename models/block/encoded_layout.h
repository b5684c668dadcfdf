// The size and the ranges of a parameter as stored.
#pragma once

#include <cstdint>
#include <vector>

#include "models/block/block.h"

namespace packtrain {

// The elements of each Hugging Face tensor, in order. Without such names: all elements. A tensor's
// rows must be one run; see has_whole_blocks().
std::vector<ElementRange> encoded_ranges(const ParameterSpec& parameter);

// True if NF4 can store the parameter: each tensor is one run of whole blocks.
bool has_whole_blocks(const ParameterSpec& parameter);

// Elements of encoding.stored_type(): numel(), or the bytes of all groups.
std::int64_t stored_numel(const ParameterSpec& parameter);

// The shape of the parameter as stored: its own, or [bytes].
std::vector<std::int64_t> stored_shape(const ParameterSpec& parameter);

}  // namespace packtrain
