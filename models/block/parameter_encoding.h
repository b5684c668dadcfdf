// How the values of a parameter are stored.
#pragma once

#include <cstdint>

#include "framework/core/data_type.h"

namespace packtrain {

// The form in which ranks keep and gather the values of a parameter, and blocks read them. An
// optimizer updates a float32 master in addition, for trainable parameters of another encoding.
struct ParameterEncoding {
  DataType type = DataType::kFloat32;

  constexpr std::int64_t size_bytes(std::int64_t numel) const {
    return numel * static_cast<std::int64_t>(size_of(type));
  }
  auto operator<=>(const ParameterEncoding&) const = default;
};

}  // namespace packtrain
