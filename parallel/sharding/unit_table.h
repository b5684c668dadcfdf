// Units: the parameters that are gathered and reduced together. Usually one block; blocks that
// share a parameter (tied embedding and head) form one unit.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "parallel/sharding/flat_layout.h"

namespace packtrain {

// The parameters of a unit that have one encoding and one gathered type (encoded_layout.h) and are
// all trainable or all frozen. One collective gathers them. Frozen ones have neither gradients nor
// optimizer state.
struct UnitPart {
  bool trainable = true;
  FlatLayout layout;
};

struct Unit {
  std::string name;             // of its first block
  std::vector<UnitPart> parts;  // trainable ones first, by PartKey; none is empty
  std::vector<int> blocks;      // ascending
  // Has a weight slot of its own, because the first, the last or several blocks use it.
  bool resident = false;

  std::span<const UnitPart> trainable_parts() const;
  // Elements of the trainable parts, of all ranks and of one.
  std::int64_t trainable_numel() const;
  std::int64_t trainable_shard_numel() const;
  std::int64_t gathered_bytes() const;  // of all parts
  bool gathers_codes() const;           // of some parts: FlatLayout::gathers_codes()
};

// The segment of a block's i-th parameter in a part of its unit.
struct ParameterPlace {
  std::size_t part = 0;
  std::size_t segment = 0;
  bool in_later_block = false;  // whose backward has written the gradient before
};

struct UnitTable {
  std::vector<Unit> units;                          // in the order of their first block
  std::vector<int> unit_of_block;                   // [num_blocks]
  std::vector<std::vector<ParameterPlace>> places;  // [num_blocks][parameters of the block]
  int first_trainable_block = 0;  // backward stops there; num_blocks when all is frozen
  // Weights in 8-bit products have a scale. Those of trained weights have the first numbers.
  int num_trained_scales = 0;
  int num_scales = 0;
};

// Throws Error(kInternal) when parameters of one name differ in shape, encoding or trainable.
UnitTable make_unit_table(std::span<const std::unique_ptr<Block>> blocks, int num_ranks);

// Elements of the largest encoded parameter: what decode_weight() writes. 0 if none is encoded.
std::int64_t largest_encoded_numel(const UnitTable& table);

// The parameters of all units, by name. They must not outlive the table.
std::map<std::string, const ParameterSpec*> parameters_by_name(const UnitTable& table);

}  // namespace packtrain
