// Converts tensors to bytes of a file and back.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstddef>
#include <cstdint>
#include <span>

#include "framework/core/data_type.h"

namespace packtrain {

// throws Error(kInternal) for a type that files do not store
DataType data_type_of(const at::Tensor& tensor);
at::ScalarType scalar_type_of(DataType type);

// The memory of a contiguous CPU tensor. Valid while the tensor's storage is.
std::span<const std::byte> bytes_of(const at::Tensor& tensor);

// Fills `destination` (1-D, any device and dtype) with the elements in `bytes`, converted. `bytes`
// can be unaligned. The copy is complete when the function returns.
void copy_elements(std::span<const std::byte> bytes, DataType type, const at::Tensor& destination);

// The same for a grid of elements with strides: `destination` [rows * columns] gets element first +
// r * row_stride + c * column_stride of `bytes` at r * columns + c.
struct ElementGrid {
  std::int64_t first = 0;
  std::int64_t rows = 1;
  std::int64_t columns = 0;
  std::int64_t row_stride = 0;
  std::int64_t column_stride = 1;
};
void copy_grid(std::span<const std::byte> bytes, DataType type, const ElementGrid& grid,
               const at::Tensor& destination);

}  // namespace packtrain
