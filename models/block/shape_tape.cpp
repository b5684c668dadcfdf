#include "models/block/shape_tape.h"

#include <utility>

namespace packtrain {

Value ShapeTape::input(std::int64_t width) {
  return value(ValueKind::kInput, "input", {size_.num_rows, width, size_.compute});
}

ParameterId ShapeTape::parameter(const ParameterSpec& spec) {
  parameters_.push_back(spec);
  return {static_cast<int>(parameters_.size()) - 1};
}

void ShapeTape::record(Operator step) {
  operators_.push_back(std::move(step));
}

}  // namespace packtrain
