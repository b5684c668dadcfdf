// The size and the ranges of a parameter as stored.
#pragma once

#include <cstdint>
#include <vector>

#include "framework/core/data_type.h"
#include "models/block/block.h"

namespace packtrain {

// The elements of each Hugging Face tensor, in order. Without such names, and in 8-bit floats: all
// elements. A tensor's rows must be one run; see can_encode().
std::vector<ElementRange> encoded_ranges(const ParameterSpec& parameter);

// True if NF4 can store the parameter: each tensor is one run of whole blocks.
bool has_whole_blocks(const ParameterSpec& parameter);
// The same of any format. 8-bit floats need whole 16 bytes.
bool can_encode(const ParameterSpec& parameter, ParameterEncoding::Format format);

// Elements of encoding.stored_type(): numel(), or all bytes.
std::int64_t stored_numel(const ParameterSpec& parameter);

// True of a weight in 8-bit products that is stored as numbers. It has one scale (ops/fp8).
bool has_fp8_scale(const ParameterSpec& parameter);

// The type of the elements that several ranks gather: bytes of codes in e4m3 if it has such a
// scale, else encoding.stored_type().
DataType gathered_type(const ParameterSpec& parameter);

// The shape of the parameter as stored: its own, or [bytes].
std::vector<std::int64_t> stored_shape(const ParameterSpec& parameter);

}  // namespace packtrain
