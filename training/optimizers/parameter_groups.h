// Which parameters have which settings of the optimizer. Each combination of settings has a number,
// which is ParameterSpec::optimizer.
#pragma once

#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "framework/config/optimizer_section.h"
#include "models/block/block.h"
#include "parallel/sharding/optimizer_state.h"

namespace packtrain {

class ParameterGroups {
 public:
  explicit ParameterGroups(OptimizerSection section);

  // Numbers are 0 .. size() - 1. 0 has the settings of the section itself. With Muon each number
  // has another one with AdamW, for what is no matrix.
  // With 8-bit moments each of these has another one with float32 moments, for small parameters.
  // With Adafactor it is for parameters that have fewer blocks than factors.
  int size() const { return (has_small() ? 2 : 1) * num_wide(); }
  // The number of a parameter: that of the first group whose pattern matches its name, or 0. Muon
  // updates matrices: where the section chooses it those of layers alone, without adapters, and
  // where a group does all that match.
  int of(const ParameterSpec& parameter, bool in_layer) const;
  // The settings of a number. Those of a group with a weight decay have it for norms and biases
  // too.
  OptimizerSection settings(int number) const;
  // True where the number has state for blocks of elements (ParameterSpec::block_state).
  bool has_blocks(int number) const;
  // True where parameters of the number are updated by whole matrices.
  bool orthogonalises(int number) const;
  // True where second moments are factored, by all ranks together.
  bool factors(int number) const;
  // The peak rate of a number divided by that of the section.
  double rate_ratio(int number) const;
  // The state of all numbers, each tensor with the numbers that have it.
  std::vector<OptimizerStateSpec> state() const;

  // Throws Error(kConfig) when a group is that of no trained parameter, or Muon that of none. Does
  // nothing where no parameter is trained.
  void check(std::span<const std::unique_ptr<Block>> blocks) const;

 private:
  int num_groups() const { return 1 + static_cast<int>(section_.groups.size()); }
  bool has_int8() const { return section_.moments == Moments::kInt8; }
  bool has_small() const { return has_int8() || has_optimizer("adafactor"); }
  bool has_optimizer(std::string_view name) const;
  int num_wide() const { return has_optimizer("muon") ? 2 * num_groups() : num_groups(); }
  int number_of(const ParameterSpec& parameter, bool in_layer) const;
  const std::string& name_of(int group) const;

  OptimizerSection section_;
};

}  // namespace packtrain
