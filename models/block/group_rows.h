// The groups of a micro-batch, as objectives of preferences and policies read them.
#pragma once

#include <ATen/core/Tensor.h>

#include <map>
#include <string>

namespace packtrain {

// E examples of groups with N supervised rows (DeviceBatch::loss_index). The rows of an example
// follow one another, and so do the examples of a group. All examples of a group are in one
// micro-batch.
struct GroupRows {
  at::Tensor num_rows;  // int64 [E] supervised rows of each example, at least 1; the sum is N
  at::Tensor roles;     // int32 [E] GroupRole (framework/data/example_groups.h)
  // float32 [E] weight of the example's group in the step's loss. It is the group's loss weight
  // divided by the sum over all groups of the step, of all ranks and micro-batches.
  at::Tensor group_weights;
  at::Tensor margins;    // float32 [E] margin of the example's group, or undefined
  at::Tensor reference;  // float32 [N] log-probabilities of the reference, or undefined
  // float32 [] divergence from the reference of the optimizer step (KTO), or undefined
  at::Tensor kl;
  std::map<std::string, at::Tensor> columns;  // float32 [N] each, by name of the token column

  bool is_defined() const { return num_rows.defined(); }
};

}  // namespace packtrain
