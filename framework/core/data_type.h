// Element types for code without a tensor library: communicators, files, stores.
#pragma once

#include <cstddef>
#include <cstdint>

namespace packtrain {

enum class DataType : std::uint8_t {
  kUInt8,
  kInt16,
  kInt32,
  kInt64,
  kFloat16,
  kBFloat16,
  kFloat32,
  kFloat64,
  kBool,        // one byte; in files of others only
  kFloat8E4M3,  // OCP's 8-bit floats: without infinity, largest value 448
  kFloat8E5M2   // with infinity, largest value 57344
};

constexpr std::size_t size_of(DataType type) {
  switch (type) {
    case DataType::kUInt8:
    case DataType::kBool:
    case DataType::kFloat8E4M3:
    case DataType::kFloat8E5M2:
      return 1;
    case DataType::kInt16:
    case DataType::kFloat16:
    case DataType::kBFloat16:
      return 2;
    case DataType::kInt32:
    case DataType::kFloat32:
      return 4;
    case DataType::kInt64:
    case DataType::kFloat64:
      return 8;
  }
  return 0;
}

}  // namespace packtrain
