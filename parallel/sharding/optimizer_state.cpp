#include "parallel/sharding/optimizer_state.h"

#include <fmt/format.h>

#include <algorithm>

#include "framework/core/error.h"

namespace packtrain {

std::int64_t state_values(const OptimizerStateSpec& spec, std::int64_t numel) {
  switch (spec.granularity) {
    case StateGranularity::kElement:
      return numel;
    case StateGranularity::kBlock:
      return (numel + kStateBlock - 1) / kStateBlock;
  }
  return 0;
}

std::int64_t state_bytes(std::span<const OptimizerStateSpec> state, std::int64_t numel) {
  std::int64_t bytes = 0;
  for (const OptimizerStateSpec& spec : state) {
    bytes += state_values(spec, numel) * static_cast<std::int64_t>(at::elementSize(spec.dtype));
  }
  return bytes;
}

const at::Tensor& find_tensor(std::span<const OptimizerTensor> state, std::string_view name) {
  const auto found = std::ranges::find(state, name, &OptimizerTensor::name);
  if (found != state.end()) return found->values;
  throw Error(
      ErrorCategory::kInternal,
      fmt::format("the optimizer's state has no tensor '{}', which its update needs", name));
}

}  // namespace packtrain
