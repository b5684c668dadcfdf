// Where each tensor of the optimizer's state has the values of a rank's elements. Parameters have
// the state of their own optimizer, so a tensor has values for some ranges of elements only.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "parallel/sharding/optimizer_state.h"

namespace packtrain {

// Consecutive trainable elements of a rank that have one optimizer.
struct StateRange {
  std::int64_t numel = 0;
  int optimizer = 0;  // ParameterSpec::optimizer
};

class StateLayout {
 public:
  // `ranges`: one after another, all trainable elements of the rank.
  StateLayout(std::vector<OptimizerStateSpec> specs, std::span<const StateRange> ranges);

  const std::vector<OptimizerStateSpec>& specs() const { return specs_; }
  // Returns the number of values of specs()[spec] that all elements have.
  std::int64_t num_values(std::size_t spec) const { return values_at_.at(spec).back(); }
  std::int64_t num_bytes() const;

  // Views of the state of the elements [begin, begin + numel). `state` has the tensors of all
  // elements, in the order of specs(). Tensors without values for them are left out.
  std::vector<OptimizerTensor> narrow(std::span<const OptimizerTensor> state, std::int64_t begin,
                                      std::int64_t numel) const;

 private:
  std::int64_t values_before(std::size_t spec, std::int64_t element) const;

  std::vector<OptimizerStateSpec> specs_;
  std::vector<std::int64_t> begins_;                  // of each range, and the end of all
  std::vector<std::vector<std::int64_t>> values_at_;  // [specs][ranges + 1]
};

}  // namespace packtrain
