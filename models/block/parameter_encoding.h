// How the values of a parameter are stored.
#pragma once

#include <cstdint>

#include "framework/core/data_type.h"
#include "models/block/nf4_groups.h"

namespace packtrain {

// Elements [begin, begin + numel) of a flattened parameter.
struct ElementRange {
  std::int64_t begin = 0;
  std::int64_t numel = 0;

  bool operator==(const ElementRange&) const = default;
};

// The form in which ranks keep and gather the values of a parameter. Blocks read them as `type`. An
// optimizer updates a float32 master in addition, for trainable parameters of another encoding,
// unless they are their own master (ParameterSpec::own_master).
struct ParameterEncoding {
  enum class Format : std::uint8_t {
    kPlain,  // elements of `type`
    // Bytes, of frozen parameters only:
    kNf4,  // groups of 4-bit codes (nf4_groups.h)
    kFp8,  // 8-bit floats with one scale (fp8_bytes.h)
  };

  DataType type = DataType::kFloat32;
  Format format = Format::kPlain;

  constexpr bool is_plain() const { return format == Format::kPlain; }
  constexpr DataType stored_type() const { return is_plain() ? type : DataType::kUInt8; }
  // Of `numel` stored elements.
  constexpr std::int64_t size_bytes(std::int64_t numel) const {
    return numel * static_cast<std::int64_t>(size_of(stored_type()));
  }
  auto operator<=>(const ParameterEncoding&) const = default;
};

}  // namespace packtrain
