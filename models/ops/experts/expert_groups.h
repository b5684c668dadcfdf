// Choice of experts in groups (node-limited routing; DeepSeek-AI, arXiv 2405.04434, 2.2.2). E
// experts are G groups of E / G neighbours. Each row first chooses groups, then experts in them. In
// libtorch's operators on any device. Nothing waits for the device.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>

#include "models/ops/experts/routing.h"

namespace packtrain {

// The columns of the `count` largest values of each row, largest first, of equal ones the lowest.
at::Tensor largest_columns(const at::Tensor& values, std::int64_t count);

// The scores [T, E] with minus infinity for experts of groups that a row does not choose. A group's
// score is the sum of its `num_best` largest ones. Of equal groups the lowest is chosen.
at::Tensor scores_in_groups(const at::Tensor& scores, const RoutingOptions& options,
                            std::int64_t num_best);

}  // namespace packtrain
