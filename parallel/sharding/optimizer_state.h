// State that an optimizer keeps for trainable weights from step to step, by name. The optimizer
// declares it (training/optimizers). Storage, checkpoints and memory plans iterate over it.
#pragma once

#include <ATen/core/Tensor.h>

#include <algorithm>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace packtrain {

// One value of the state belongs to one element of the weights, or to a block of them. Block b has
// the elements [256 b, 256 (b + 1)) of a parameter.
enum class StateGranularity { kElement, kBlock };
inline constexpr std::int64_t kStateBlock = 256;  // elements of a block

struct OptimizerStateSpec {
  std::string name;  // also the kind of tensor in checkpoints
  at::ScalarType dtype = at::kFloat;
  StateGranularity granularity = StateGranularity::kElement;
  // Numbers (ParameterSpec::optimizer) of the parameters that have it. Empty: all have it.
  std::vector<int> optimizers = {};
  // All bytes before the first update. Those after the last parameter of a unit keep it. They are
  // in no checkpoint, so a block that they share with a parameter must not depend on them.
  std::uint8_t first_byte = 0;

  bool is_of(int optimizer) const {
    return optimizers.empty() || std::ranges::find(optimizers, optimizer) != optimizers.end();
  }
};

// The values of one OptimizerStateSpec for a range of weights: 1-D, contiguous.
struct OptimizerTensor {
  std::string name;
  at::Tensor values;
  std::int64_t elements_per_value = 1;  // the last value may have fewer
};

// Values for `numel` consecutive elements of weights, of which the first begins a block.
std::int64_t state_values(const OptimizerStateSpec& spec, std::int64_t numel);
// Bytes of the whole state for `numel` consecutive elements of weights that have all of it.
std::int64_t state_bytes(std::span<const OptimizerStateSpec> state, std::int64_t numel);

// Throws Error(kInternal) when the state has no tensor of this name.
const at::Tensor& find_tensor(std::span<const OptimizerTensor> state, std::string_view name);

}  // namespace packtrain
