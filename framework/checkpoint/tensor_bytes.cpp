#include "framework/checkpoint/tensor_bytes.h"

#include <ATen/ops/empty.h>
#include <ATen/ops/from_blob.h>
#include <fmt/format.h>

#include <cstdint>
#include <cstring>

#include "framework/support/error.h"

namespace packtrain {

DataType data_type_of(const at::Tensor& tensor) {
  switch (tensor.scalar_type()) {
    case at::kFloat:
      return DataType::kFloat32;
    case at::kBFloat16:
      return DataType::kBFloat16;
    case at::kHalf:
      return DataType::kFloat16;
    default:
      throw Error(ErrorCategory::kInternal,
                  fmt::format("a tensor of {} cannot be stored, want float32, bfloat16 or float16",
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
    default:
      throw Error(ErrorCategory::kCheckpoint,
                  "weights are stored as float32, bfloat16 or float16, got another type");
  }
}

std::span<const std::byte> bytes_of(const at::Tensor& tensor) {
  return {static_cast<const std::byte*>(tensor.const_data_ptr()), tensor.nbytes()};
}

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
  at::Tensor source;
  if (reinterpret_cast<std::uintptr_t>(bytes.data()) % size_of(type) == 0) {
    // from_blob takes a mutable pointer; nothing writes to the mapped file.
    source = at::from_blob(const_cast<std::byte*>(bytes.data()), {destination.numel()}, scalar);
  } else {
    source = at::empty({destination.numel()}, scalar);
    std::memcpy(source.data_ptr(), bytes.data(), bytes.size());
  }
  destination.copy_(source);
}

}  // namespace packtrain
