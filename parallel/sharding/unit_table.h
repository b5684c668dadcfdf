// Units: the parameters that are gathered and reduced together. Usually one block; blocks that
// share a parameter (tied embedding and head) form one unit.
#pragma once

#include <cstddef>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "parallel/sharding/flat_layout.h"

namespace packtrain {

struct Unit {
  std::string name;         // of its first block
  FlatLayout trainable;     // either may be empty; frozen parameters are separate and have
  FlatLayout frozen;        // neither gradients nor optimizer state
  std::vector<int> blocks;  // ascending
  // Has a weight slot of its own, because the first, the last or several blocks use it.
  bool resident = false;

  std::int64_t numel() const { return trainable.numel + frozen.numel; }
};

// The segment of a block's i-th parameter in the trainable or frozen layout of its unit.
struct ParameterPlace {
  bool trainable = true;
  std::size_t segment = 0;
};

struct UnitTable {
  std::vector<Unit> units;                          // in the order of their first block
  std::vector<int> unit_of_block;                   // [num_blocks]
  std::vector<std::vector<ParameterPlace>> places;  // [num_blocks][parameters of the block]
  int first_trainable_block = 0;  // backward stops there; num_blocks when all is frozen
};

// Throws Error(kInternal) when parameters of different shapes have one name.
UnitTable make_unit_table(std::span<const std::unique_ptr<Block>> blocks, int num_ranks);

}  // namespace packtrain
