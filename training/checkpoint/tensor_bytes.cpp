#include "training/checkpoint/tensor_bytes.h"

#include <ATen/ops/as_strided.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/from_blob.h>
#include <fmt/format.h>

#include <cstdint>
#include <cstring>

#include "framework/core/error.h"

namespace packtrain {

DataType data_type_of(const at::Tensor& tensor) {
  switch (tensor.scalar_type()) {
    case at::kFloat:
      return DataType::kFloat32;
    case at::kBFloat16:
      return DataType::kBFloat16;
    case at::kHalf:
      return DataType::kFloat16;
    case at::kByte:
      return DataType::kUInt8;
    default:
      throw Error(
          ErrorCategory::kInternal,
          fmt::format("a tensor of {} cannot be stored, want float32, bfloat16, float16 or uint8",
                      c10::toString(tensor.scalar_type())));
  }
}

at::ScalarType scalar_type_of(DataType type) {
  switch (type) {
    case DataType::kFloat32:
      return at::kFloat;
    case DataType::kBFloat16:
      return at::kBFloat16;
    case DataType::kFloat16:
      return at::kHalf;
    case DataType::kUInt8:
      return at::kByte;
    default:
      throw Error(ErrorCategory::kCheckpoint,
                  "weights are stored as float32, bfloat16, float16 or uint8, got another type");
  }
}

std::span<const std::byte> bytes_of(const at::Tensor& tensor) {
  return {static_cast<const std::byte*>(tensor.const_data_ptr()), tensor.nbytes()};
}

namespace {

// A tensor of the elements in `bytes`, without a copy when they are aligned.
at::Tensor as_elements(std::span<const std::byte> bytes, DataType type) {
  const at::ScalarType scalar = scalar_type_of(type);
  const auto numel = static_cast<std::int64_t>(bytes.size() / size_of(type));
  if (reinterpret_cast<std::uintptr_t>(bytes.data()) % size_of(type) == 0) {
    // from_blob takes a mutable pointer, but nothing writes to the mapped file.
    return at::from_blob(const_cast<std::byte*>(bytes.data()), {numel}, scalar);
  }
  at::Tensor copy = at::empty({numel}, scalar);
  std::memcpy(copy.data_ptr(), bytes.data(), bytes.size());
  return copy;
}

}  // namespace

void copy_elements(std::span<const std::byte> bytes, DataType type, const at::Tensor& destination) {
  if (bytes.empty()) return;
  const at::ScalarType scalar = scalar_type_of(type);
  if (bytes.size() != static_cast<std::size_t>(destination.numel()) * size_of(type)) {
    throw Error(ErrorCategory::kInternal,
                fmt::format("{} bytes for {} elements", bytes.size(), destination.numel()));
  }
  if (destination.is_cpu() && destination.scalar_type() == scalar && destination.is_contiguous()) {
    std::memcpy(destination.data_ptr(), bytes.data(), bytes.size());
    return;
  }
  destination.copy_(as_elements(bytes, type));
}

void copy_grid(std::span<const std::byte> bytes, DataType type, const ElementGrid& grid,
               const at::Tensor& destination) {
  const std::int64_t last =
      (grid.rows - 1) * grid.row_stride + (grid.columns - 1) * grid.column_stride;
  const auto width = static_cast<std::int64_t>(size_of(type));
  const auto touched = bytes.subspan(static_cast<std::size_t>(grid.first * width),
                                     static_cast<std::size_t>((last + 1) * width));
  if (grid.column_stride == 1 && (grid.rows == 1 || grid.row_stride == grid.columns)) {
    copy_elements(touched, type, destination);
    return;
  }
  const at::Tensor source = as_elements(touched, type);
  destination.view({grid.rows, grid.columns})
      .copy_(
          at::as_strided(source, {grid.rows, grid.columns}, {grid.row_stride, grid.column_stride}));
}

}  // namespace packtrain
