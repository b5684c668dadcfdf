// Tensors as bytes of a file, and back.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstddef>
#include <span>

#include "framework/support/data_type.h"

namespace packtrain {

DataType data_type_of(const at::Tensor& tensor);  // throws Error(kInternal) for one we do not store
at::ScalarType scalar_type_of(DataType type);

// The memory of a contiguous CPU tensor, valid as long as that.
std::span<const std::byte> bytes_of(const at::Tensor& tensor);

// Fills `destination` (1-D, any device and dtype) with the elements in `bytes`, converting.
// `bytes` need not be aligned. Returns when the elements are there.
void copy_elements(std::span<const std::byte> bytes, DataType type, const at::Tensor& destination);

}  // namespace packtrain
