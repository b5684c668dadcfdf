// Values of a store's supervised tokens that come from another file, for collators.
#pragma once

#include <cstdint>
#include <span>

namespace packtrain {

class RowValues {
 public:
  virtual ~RowValues() = default;
  // [labels of the example] float32, one for each supervised token after the first token, in order.
  // The values must stay until the object ends. Several threads call it.
  virtual std::span<const float> of(std::int64_t example) const = 0;
};

}  // namespace packtrain
