// Libtorch's element type of a DataType.
#pragma once

#include <c10/core/ScalarType.h>

#include "framework/core/data_type.h"

namespace packtrain {

constexpr c10::ScalarType scalar_type(DataType type) {
  switch (type) {
    case DataType::kUInt8:
      return c10::ScalarType::Byte;
    case DataType::kFloat8E4M3:
      return c10::ScalarType::Float8_e4m3fn;
    case DataType::kFloat8E5M2:
      return c10::ScalarType::Float8_e5m2;
    case DataType::kInt16:
      return c10::ScalarType::Short;
    case DataType::kInt32:
      return c10::ScalarType::Int;
    case DataType::kInt64:
      return c10::ScalarType::Long;
    case DataType::kFloat16:
      return c10::ScalarType::Half;
    case DataType::kBFloat16:
      return c10::ScalarType::BFloat16;
    case DataType::kFloat32:
      return c10::ScalarType::Float;
    case DataType::kFloat64:
      return c10::ScalarType::Double;
    case DataType::kBool:
      return c10::ScalarType::Bool;
  }
  return c10::ScalarType::Undefined;
}

}  // namespace packtrain
